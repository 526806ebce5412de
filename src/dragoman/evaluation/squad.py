"""Answers as they are scored on SQuAD (Rajpurkar et al., 2016, section 6; 2018): exact match and F1 of words.

Both compare texts in lower case, without ASCII punctuation, without the articles a, an, the, and with single spaces. A
question counts the best of its reference answers. One without any, or with such alone as normalise to nothing, cannot
be answered: there the empty answer is right and every other is wrong.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from dragoman.errors import DataError
from dragoman.evaluation.scores import Score

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """An answer as it is compared."""
    without_punctuation = answer.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    """1 where the answer equals a reference when both are normalised, else 0; with no reference, 1 for no answer."""
    return max(float(normalised(answer) == accepted) for accepted in _accepted(references))


def span_f1(answer: str, references: Sequence[str]) -> float:
    """The best F1 between the words of the answer and those of a reference, each word as often as it occurs."""
    words = normalised(answer).split()
    return max(_f1(words, accepted.split()) for accepted in _accepted(references))


def span_scores(answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[Score]:
    """Exact match and F1 over all questions, in percent; `references[i]` are the accepted answers of question `i`.

    The details give both kinds of question apart where some cannot be answered. Raises DataError where there is no
    question, or not one answer for each.
    """
    if len(answers) != len(references):
        raise DataError(f"{len(answers):,} answers are given for {len(references):,} questions; give one for each")
    if not answers:
        raise DataError("there is no question to score")
    answerable = [_accepted(accepted) != [""] for accepted in references]
    signature = f"questions:{len(answers)}|unanswerable:{answerable.count(False)}|normalisation:squad|refs:best"
    scores = []
    for name, score in (("EM", exact_match), ("F1", span_f1)):
        values = [score(answer, accepted) for answer, accepted in zip(answers, references, strict=True)]
        detail = _apart(values, answerable)
        scores.append(Score(name, _mean(values), signature, detail, higher_is_better=True))
    return scores


def _accepted(references: Sequence[str]) -> list[str]:
    """The references normalised; the empty answer alone where nothing is left of them."""
    return [text for text in map(normalised, references) if text] or [""]


def _f1(words: list[str], accepted: list[str]) -> float:
    if not words or not accepted:
        return float(words == accepted)
    shared = sum((Counter(words) & Counter(accepted)).values())
    return 2 * shared / (len(words) + len(accepted))


def _apart(values: Sequence[float], answerable: Sequence[bool]) -> str:
    if all(answerable):
        return ""
    parts = []
    for wanted, name in ((True, "answerable"), (False, "unanswerable")):
        some = [value for value, there in zip(values, answerable, strict=True) if there is wanted]
        if some:
            parts.append(f"{name} {_mean(some):.2f} of {len(some)}")
    return f"({', '.join(parts)})"


def _mean(values: Sequence[float]) -> float:
    """In percent."""
    return 100 * sum(values) / len(values)
