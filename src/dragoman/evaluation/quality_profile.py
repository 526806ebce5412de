"""Profile of the translations of one model: what its confidence is worth, and what good translations look like.

The confidence is calibrated by isotonic regression (Zadrozny and Elkan, 2002; pool adjacent violators, Ayer et al.,
1955): the expected sentence score is the best function of the confidence that nowhere decreases. Held-out pairs with
similar confidences are averaged first, so that no step of the function depends on a few sentences.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from dragoman.array_types import Float
from dragoman.errors import DataError
from dragoman.evaluation.metrics import Chrf, check_aligned, sentence_scores
from dragoman.evaluation.script_statistics import count_scripts
from dragoman.evaluation.translation_checks import NO_STATISTICS, TextStatistics, is_copied, log_length_ratio
from dragoman.number_words import counted

MIN_PAIRS = 100
"""Pairs from which a profile can be measured."""
BINS = 20
"""Groups of pairs with similar confidences."""
_MIN_BIN = 20
_DEVIATIONS = 5.0
"""Standard deviations from which on a length is unlikely."""
_MIN_DEVIATION = math.log(1.5)
_SCRIPT_SHARE = 0.01
"""Minimum share of the letters of references that are in a writing system of the language."""
_COPIED_REFERENCES = 0.05
"""Share of references copied from their sources from which on copying is no error."""


@final
@dataclass(frozen=True, slots=True)
class ConfidenceCurve:
    """Expected sentence chrF of each confidence: straight lines between points, and constant outside of them."""

    confidences: tuple[float, ...]
    scores: tuple[float, ...]

    def __call__(self, confidence: float) -> float:
        """Return the expected sentence chrF, from 0 to 100."""
        return float(np.interp(confidence, self.confidences, self.scores))

    @classmethod
    def fit(cls, confidences: Sequence[float], scores: Sequence[float]) -> Self:
        """Fit the curve to sentences with these confidences and scores."""
        order = np.argsort(confidences, kind="stable")
        count = max(1, min(BINS, len(order) // _MIN_BIN))
        groups = np.array_split(order, count)
        rows = [np.asarray(values, dtype=np.float64) for values in (confidences, scores)]
        points, values = (np.array([row[group].mean() for group in groups]) for row in rows)
        values = isotonic_regression(values, np.array([len(group) for group in groups], dtype=np.float64))
        return cls(tuple(points.tolist()), tuple(values.tolist()))


def isotonic_regression(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the numbers that nowhere decrease and are nearest to the values, by weighted squares."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight and length
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        block = (value, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            mean, total, length = blocks.pop()
            both = total + block[1]
            block = ((mean * total + block[0] * block[1]) / both, both, length + block[2])
        blocks.append(block)
    return np.repeat([mean for mean, _, _ in blocks], [length for _, _, length in blocks])


@final
@dataclass(frozen=True, slots=True)
class QualityProfile:
    """Calibrated confidence of a model, and statistics of the texts that it should write."""

    curve: ConfidenceCurve
    statistics: TextStatistics
    pairs: int
    """Held-out pairs that it was measured on."""


@final
@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """Measures of how well the confidence predicts the sentence chrF of the pairs it was measured on."""

    pearson: float
    spearman: float
    chrf: float
    """Mean sentence chrF."""
    error: float
    """Mean absolute difference between the expected and the actual sentence chrF."""


def measure_profile(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str], confidences: Sequence[float]
) -> tuple[QualityProfile, CalibrationReport]:
    """Measure the profile of a model on its translations of held-out sources.

    Raises DataError on fewer than `MIN_PAIRS` pairs, and where the numbers of texts differ.
    """
    check_aligned(outputs, [references, sources], names=["outputs", "references", "sources"])
    check_pairs(len(sources))
    scores = [one.value for one in sentence_scores(outputs, [references], Chrf())]
    curve = ConfidenceCurve.fit(confidences, scores)
    expected = np.array([curve(one) for one in confidences])
    report = CalibrationReport(
        pearson=correlation(confidences, scores),
        spearman=correlation(ranks(confidences), ranks(scores)),
        chrf=float(np.mean(scores)),
        error=float(np.abs(expected - np.array(scores)).mean()),
    )
    return QualityProfile(curve, text_statistics(sources, references), len(sources)), report


def check_pairs(count: int) -> None:
    """Raise DataError on fewer than `MIN_PAIRS` pairs."""
    if count < MIN_PAIRS:
        raise DataError(f"{counted(count, 'pairs')}: a calibration needs {MIN_PAIRS} or more. Give more pairs.")


def text_statistics(sources: Sequence[str], references: Sequence[str]) -> TextStatistics:
    """Return the statistics of good translations."""
    pairs = [(source, text) for source, text in zip(sources, references, strict=True) if source.strip()]
    if not pairs:
        return NO_STATISTICS
    ratios = [log_length_ratio(source, text) for source, text in pairs]
    scripts = count_scripts("".join(references))
    known = tuple(name for name, count in scripts.most_common() if count >= _SCRIPT_SHARE * scripts.total())
    deviation = max(_MIN_DEVIATION, _DEVIATIONS * float(np.std(ratios)))
    return TextStatistics(
        mean_log_ratio=float(np.mean(ratios)),
        max_deviation=min(NO_STATISTICS.max_deviation, deviation),
        scripts=known,
        copies=sum(is_copied(*pair) for pair in pairs) > _COPIED_REFERENCES * len(pairs),
    )


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Pearson's correlation; 0 where all numbers of one side are equal."""
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not one.std() or not other.std():
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each number, equal ones with their mean rank: Pearson's correlation of ranks is Spearman's."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    means = np.cumsum(counts) - (counts + 1) / 2
    return [float(one) for one in means[inverse]]
