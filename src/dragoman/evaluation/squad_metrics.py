"""Metrics of SQuAD (Rajpurkar et al., 2016, section 6; 2018): exact match and word F1 of answers.

Both compare texts in lower case, without ASCII punctuation and the articles a, an and the, and with single spaces. The
best reference answer counts. A question is unanswerable if all its references are empty after normalization: then the
empty answer is correct and every other answer is wrong.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Score
from dragoman.number_words import counted

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(answer: str) -> str:
    """Normalize an answer for comparison."""
    without_punctuation = answer.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    """Return 1 if the normalized answer equals a normalized reference, else 0."""
    return max(float(normalize_answer(answer) == accepted) for accepted in _accepted_answers(references))


def span_f1(answer: str, references: Sequence[str]) -> float:
    """Return the best F1 between the words of the answer and of a reference, as multisets."""
    words = normalize_answer(answer).split()
    return max(_f1(words, accepted.split()) for accepted in _accepted_answers(references))


def span_scores(answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[Score]:
    """Return exact match and F1 in percent; `references[i]` are the accepted answers of question `i`.

    If some questions are unanswerable, the details list both kinds separately. Raises DataError if there are no
    questions, or the numbers of answers and questions differ.
    """
    if len(answers) != len(references):
        raise DataError(
            f"{counted(len(answers), 'answers')} for {counted(len(references), 'questions')}; give as many answers as "
            f"questions"
        )
    if not answers:
        raise DataError("there are no questions to score; give at least one")
    answerable = [_accepted_answers(accepted) != [""] for accepted in references]
    signature = f"questions:{len(answers)}|unanswerable:{answerable.count(False)}|normalization:squad|refs:best"
    scores = []
    for name, score in (("EM", exact_match), ("F1", span_f1)):
        values = [score(answer, accepted) for answer, accepted in zip(answers, references, strict=True)]
        detail = _details_by_kind(values, answerable)
        scores.append(Score(name, _mean(values), signature, detail, higher_is_better=True))
    return scores


def _accepted_answers(references: Sequence[str]) -> list[str]:
    """Normalize the references; return the empty answer alone if all are empty."""
    return [text for text in map(normalize_answer, references) if text] or [""]


def _f1(words: list[str], accepted: list[str]) -> float:
    if not words or not accepted:
        return float(words == accepted)
    shared = sum((Counter(words) & Counter(accepted)).values())
    return 2 * shared / (len(words) + len(accepted))


def _details_by_kind(values: Sequence[float], answerable: Sequence[bool]) -> str:
    if all(answerable):
        return ""
    parts = []
    for kind, name in ((True, "answerable"), (False, "unanswerable")):
        selected = [value for value, can_answer in zip(values, answerable, strict=True) if can_answer is kind]
        if selected:
            parts.append(f"{name} {_mean(selected):.2f} of {len(selected)}")
    return f"({', '.join(parts)})"


def _mean(values: Sequence[float]) -> float:
    """Return the mean in percent."""
    return 100 * sum(values) / len(values)
