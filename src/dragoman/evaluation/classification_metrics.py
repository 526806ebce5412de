r"""Confusion matrix, precision, recall and F1 of classification.

For a class with $TP$ true positives, $FP$ false positives and $FN$ false negatives: precision $P = TP / (TP + FP)$,
recall $R = TP / (TP + FN)$, and $F_1 = 2PR / (P + R) = 2TP / (2TP + FP + FN)$ (van Rijsbergen, 1979). A score is 0 if
its denominator is 0.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Baseline, Score
from dragoman.number_words import counted


@final
@dataclass(frozen=True, slots=True)
class ClassScores:
    """Scores of one class in percent, with the number of its examples (`support`) and of its predictions."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


@final
@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """Confusion matrix: `counts[e][p]` examples of `labels[e]` are predicted as `labels[p]`."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def examples(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """Percentage of correct predictions."""
        return 100 * sum(self.counts[place][place] for place in range(len(self.labels))) / self.examples

    @property
    def macro_f1(self) -> float:
        """Mean F1 in percent of the classes that occur among the examples or the predictions."""
        present = [scores.f1 for scores in self.classes() if scores.support or scores.predicted]
        return sum(present) / len(present)

    def classes(self) -> list[ClassScores]:
        """Return precision, recall and F1 of every class, in the order of `labels`."""
        found = []
        for place, label in enumerate(self.labels):
            correct, support = self.counts[place][place], sum(self.counts[place])
            predicted = sum(row[place] for row in self.counts)
            precision, recall = _percent(correct, predicted), _percent(correct, support)
            found.append(
                ClassScores(label, precision, recall, _percent(2 * correct, support + predicted), support, predicted)
            )
        return found

    def table(self) -> str:
        """Format the matrix: one row per expected label, one column per predicted label, then scores."""
        heading = ["expected", *self.labels, "precision", "recall", "F1"]
        rows = [
            [scores.label, *map(str, row), f"{scores.precision:.1f}", f"{scores.recall:.1f}", f"{scores.f1:.1f}"]
            for scores, row in zip(self.classes(), self.counts, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
        alignments = ["<", *[">"] * (len(heading) - 1)]
        cells = "  ".join(f"{{:{alignment}{width}}}" for alignment, width in zip(alignments, widths, strict=True))
        return "\n".join(cells.format(*row) for row in [heading, *rows])


def confusion_matrix(
    predicted: Sequence[str], expected: Sequence[str], *, labels: Sequence[str] | None = None
) -> ConfusionMatrix:
    """Count predictions per class. `labels` gives the order of the classes; by default all that occur, sorted.

    Raises DataError if there are no examples, the numbers differ, or a label is not in `labels`.
    """
    if len(predicted) != len(expected):
        raise DataError(
            f"{counted(len(predicted), 'predicted labels')} for {counted(len(expected), 'examples')}; give as many "
            f"labels as examples"
        )
    if not expected:
        raise DataError("there are no examples to score; give one label per line")
    names = tuple(sorted({*predicted, *expected}) if labels is None else labels)
    unknown = {*predicted, *expected}.difference(names)
    if unknown:
        raise DataError(f"label {min(unknown)!r} is not a class; the classes are {', '.join(names)}")
    pairs = Counter(zip(expected, predicted, strict=True))
    return ConfusionMatrix(names, tuple(tuple(pairs[true, taken] for taken in names) for true in names))


def classification_scores(predicted: Sequence[str], expected: Sequence[str]) -> list[Score]:
    """Return accuracy and macro-averaged F1 in percent. Raises DataError as `confusion_matrix` does."""
    counted = confusion_matrix(predicted, expected)
    most_frequent = Counter(expected).most_common(1)[0][1]
    baseline = Baseline(_percent(most_frequent, counted.examples), "the most frequent label")
    facts = f"classes:{len(set(expected))}|examples:{counted.examples}"
    return [
        Score("accuracy", counted.accuracy, facts, "", higher_is_better=True, baseline=baseline),
        Score("macro-F1", counted.macro_f1, f"{facts}|average:macro|absent:left-out", "", higher_is_better=True),
    ]


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
