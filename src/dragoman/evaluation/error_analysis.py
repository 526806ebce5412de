"""Error analysis: scores by sentence length, word frequency and kind of word, and outputs that are not translations.

Words are separated by white space and stripped of surrounding punctuation. Recall and precision count words as
multisets, sentence by sentence.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from dragoman.evaluation.metrics import Bleu, Chrf, check_aligned, corpus_score, sentence_scores

LENGTH_BOUNDS = (5, 10, 15, 20, 30, 50)
"""Maximum source length of each group but the last, in words."""
FREQUENCY_BOUNDS = (0, 1, 4, 19, 99, 999)
"""Maximum frequency in the training data of each group but the last."""
MAX_REPEATED_WORDS = 4
COPY_THRESHOLD = 0.5
"""Minimum fraction of words copied from the source, and missing in the reference, of a copied output."""

_TRIMMED = re.compile(r"\w(?:.*\w)?")


@dataclass(frozen=True, slots=True)
class GroupScores:
    """Scores of a group of sentences."""

    name: str
    sentences: int
    bleu: float
    chrf: float


@dataclass(frozen=True, slots=True)
class WordAccuracy:
    """Number of words of one kind in the references, in the outputs and in both."""

    name: str
    in_references: int
    in_outputs: int
    in_both: int

    @property
    def recall(self) -> float | None:
        return self.in_both / self.in_references if self.in_references else None

    @property
    def precision(self) -> float | None:
        return self.in_both / self.in_outputs if self.in_outputs else None


@dataclass(frozen=True, slots=True)
class OutputErrors:
    """Indexes, from 0, of sentences whose outputs are empty, repeat themselves or copy the source."""

    empty: tuple[int, ...]
    repetitive: tuple[int, ...]
    copied: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WorstSentence:
    """Sentence with a low score."""

    index: int
    chrf: float
    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class ErrorAnalysis:
    """Error analysis of one system on a test set."""

    name: str
    overall: GroupScores
    by_length: tuple[GroupScores, ...]
    by_frequency: tuple[WordAccuracy, ...]
    """Empty without word frequencies."""
    by_kind: tuple[WordAccuracy, ...]
    errors: OutputErrors
    worst: tuple[WorstSentence, ...]


def analyze_errors(
    name: str,
    outputs: Sequence[str],
    *,
    sources: Sequence[str],
    references: Sequence[str],
    frequencies: Mapping[str, int] | None = None,
    worst: int = 10,
) -> ErrorAnalysis:
    """Analyze the outputs of a system, one per source and reference.

    `frequencies` counts each word on the target side of the training data. Raises DataError if the numbers of
    sentences differ.
    """
    check_aligned(outputs, [references, sources], names=[name, "references", "sources"])
    rows = list(zip(sources, references, outputs, strict=True))
    chrfs = [score.value for score in sentence_scores(outputs, [references], Chrf())]
    ranked = sorted(range(len(rows)), key=lambda number: (chrfs[number], number))[:worst]
    return ErrorAnalysis(
        name=name,
        overall=_group_scores("all", rows),
        by_length=tuple(_by_length(rows)),
        by_frequency=tuple(_by_frequency(rows, frequencies)) if frequencies is not None else (),
        by_kind=tuple(_by_kind(rows)),
        errors=OutputErrors(
            empty=tuple(number for number, (_, _, output) in enumerate(rows) if not output.strip()),
            repetitive=tuple(number for number, (_, _, output) in enumerate(rows) if is_repetitive(output)),
            copied=tuple(number for number, row in enumerate(rows) if is_copy(*row)),
        ),
        worst=tuple(WorstSentence(number, chrfs[number], *rows[number]) for number in ranked),
    )


SentenceRow = tuple[str, str, str]
"""Source, reference and output."""


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count each word."""
    return Counter(word for text in texts for word in words(text))


def words(text: str) -> list[str]:
    """Split a text into words without surrounding punctuation.

    >>> words('"Zwei (2) Hunde," sagt er.')
    ['Zwei', '2', 'Hunde', 'sagt', 'er']
    """
    return [trimmed[0] for word in text.split() if (trimmed := _TRIMMED.search(word))]


def is_repetitive(output: str) -> bool:
    """Return whether a sequence of words occurs twice in a row, or a single word three times.

    >>> [is_repetitive(text) for text in ("ein Mann mit einem Hut mit einem Hut", "das, das sie sah", "ja ja ja")]
    [True, False, True]
    """
    output_words = words(output)
    for size in range(1, MAX_REPEATED_WORDS + 1):
        times = 3 if size == 1 else 2
        for first in range(len(output_words) - times * size + 1):
            pieces = [output_words[first + time * size : first + (time + 1) * size] for time in range(times)]
            if all(piece == pieces[0] for piece in pieces):
                return True
    return False


def is_copy(source: str, reference: str, output: str) -> bool:
    """Return whether at least half of the output's words are in the source but not in the reference."""
    output_words = words(output)
    copied = [word for word in output_words if word in set(words(source)) - set(words(reference))]
    return bool(output_words) and len(copied) >= COPY_THRESHOLD * len(output_words)


def _by_length(rows: Sequence[SentenceRow]) -> Iterable[GroupScores]:
    for low, high in zip((0, *LENGTH_BOUNDS), (*LENGTH_BOUNDS, None), strict=True):
        group = [row for row in rows if low < len(row[0].split()) and (high is None or len(row[0].split()) <= high)]
        if group:
            yield _group_scores(f"{low + 1} to {high}" if high is not None else f"more than {low}", group)


def _by_frequency(rows: Sequence[SentenceRow], frequencies: Mapping[str, int]) -> Iterable[WordAccuracy]:
    for low, high in pairwise((-1, *FREQUENCY_BOUNDS, sys.maxsize)):
        group = range(low + 1, high + 1)
        name = f"{group.start:,} to {group[-1]:,}" if group[-1] < sys.maxsize else f"{group.start:,} and more"
        name = {0: "never", 1: "once"}.get(group[-1], name)

        def belongs(_: frozenset[str], word: str, group: range = group) -> bool:
            return frequencies.get(word, 0) in group

        yield _word_accuracy(name, rows, belongs)


def _by_kind(rows: Sequence[SentenceRow]) -> Iterable[WordAccuracy]:
    yield _word_accuracy("capitalized", rows, lambda _, word: word[:1].isupper())
    yield _word_accuracy("lower-case", rows, lambda _, word: word[:1].islower())
    yield _word_accuracy("with a digit", rows, lambda _, word: any(map(str.isdigit, word)))
    yield _word_accuracy("also in the source", rows, lambda source, word: word in source)


def _word_accuracy(
    name: str, rows: Sequence[SentenceRow], belongs: Callable[[frozenset[str], str], bool]
) -> WordAccuracy:
    totals = Counter[str]()
    for source, *texts in rows:
        chosen = partial(belongs, frozenset(words(source)))
        expected, predicted = (Counter(filter(chosen, words(text))) for text in texts)
        found = {"references": expected, "outputs": predicted, "both": expected & predicted}
        totals.update({place: counts.total() for place, counts in found.items()})
    return WordAccuracy(name, totals["references"], totals["outputs"], totals["both"])


def _group_scores(name: str, rows: Sequence[SentenceRow]) -> GroupScores:
    references, outputs = [row[1] for row in rows], [row[2] for row in rows]
    bleu, chrf = (corpus_score(outputs, [references], metric).value for metric in (Bleu(), Chrf()))
    return GroupScores(name, len(rows), bleu, chrf)
