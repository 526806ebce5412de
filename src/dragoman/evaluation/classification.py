r"""How well classes are told apart: the confusion matrix, and what is read off it.

Of a class with $TP$ examples found, $FP$ taken for it wrongly and $FN$ missed: precision $P = TP / (TP + FP)$, recall
$R = TP / (TP + FN)$, and $F_1 = 2PR / (P + R) = 2TP / (2TP + FP + FN)$ (van Rijsbergen, 1979); each is 0 where its
denominator is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from dragoman.errors import DataError
from dragoman.evaluation.scores import Score


@final
@dataclass(frozen=True, slots=True)
class ClassScores:
    """One class, in percent: `support` examples are of it, and `predicted` were taken for it."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


@final
@dataclass(frozen=True, slots=True)
class Confusion:
    """How often a label was taken for another: `counts[e][p]` examples of `labels[e]` were taken for `labels[p]`."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def examples(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """Examples whose label was found, in percent."""
        return 100 * sum(self.counts[place][place] for place in range(len(self.labels))) / self.examples

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes, in percent: of those that any example is of, or was taken for."""
        there = [one.f1 for one in self.classes() if one.support or one.predicted]
        return sum(there) / len(there)

    def classes(self) -> list[ClassScores]:
        """Precision, recall and F1 of every class, in the order of `labels`."""
        columns = [sum(column) for column in zip(*self.counts, strict=True)]
        return [
            _class_scores(label, found=row[place], support=sum(row), predicted=columns[place])
            for place, (label, row) in enumerate(zip(self.labels, self.counts, strict=True))
        ]

    def table(self) -> str:
        """The matrix for people: a row an expected label, a column a predicted one, then the scores of the class."""
        heading = ["expected", *self.labels, "precision", "recall", "F1"]
        rows = [
            [one.label, *map(str, row), f"{one.precision:.1f}", f"{one.recall:.1f}", f"{one.f1:.1f}"]
            for one, row in zip(self.classes(), self.counts, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
        return "\n".join(_aligned(row, widths) for row in [heading, *rows])


def confusion(predicted: Sequence[str], expected: Sequence[str], *, labels: Sequence[str] | None = None) -> Confusion:
    """Count. `labels` gives the order of the classes; by default all that occur, sorted.

    Raises DataError where there is no example, the numbers differ, or a label is none of `labels`.
    """
    if len(predicted) != len(expected):
        raise DataError(f"{len(predicted):,} labels are predicted for {len(expected):,} examples; give one for each")
    if not expected:
        raise DataError("there is no example to score; give a label a line")
    names = tuple(sorted({*predicted, *expected}) if labels is None else labels)
    unknown = {*predicted, *expected}.difference(names)
    if unknown:
        raise DataError(f"label {min(unknown)!r} is none of the classes; known: {', '.join(names)}")
    pairs = Counter(zip(expected, predicted, strict=True))
    return Confusion(names, tuple(tuple(pairs[true, taken] for taken in names) for true in names))


def classification_scores(predicted: Sequence[str], expected: Sequence[str]) -> list[Score]:
    """Accuracy and macro-averaged F1, in percent. Raises DataError as `confusion` does."""
    counted = confusion(predicted, expected)
    facts = f"classes:{len(set(expected))}|examples:{counted.examples}"
    return [
        Score("accuracy", counted.accuracy, facts, "", higher_is_better=True),
        Score("macro-F1", counted.macro_f1, f"{facts}|average:macro|absent:left-out", "", higher_is_better=True),
    ]


def _class_scores(label: str, *, found: int, support: int, predicted: int) -> ClassScores:
    return ClassScores(
        label=label,
        precision=_percent(found, predicted),
        recall=_percent(found, support),
        f1=_percent(2 * found, support + predicted),
        support=support,
        predicted=predicted,
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first column to the left, the numbers to the right."""
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])
