"""Profiles of models: isotonic regression, calibrated confidence, and statistics of references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.quality_profile import (
    ConfidenceCurve,
    correlation,
    isotonic_regression,
    measure_profile,
    ranks,
    text_statistics,
)
from dragoman.evaluation.translation_checks import NO_STATISTICS
from tests.property_settings import examples

NUMBERS = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), min_size=1, max_size=7)


def slow_isotonic_regression(values: list[int], weights: list[int]) -> list[float]:
    """Return the regression by its formula: the largest, over starts, of the smallest mean of an interval."""

    def mean(first: int, last: int) -> float:
        return float(np.average(values[first : last + 1], weights=weights[first : last + 1]))

    count = len(values)
    return [max(min(mean(first, last) for last in range(at, count)) for first in range(at + 1)) for at in range(count)]


@given(rows=NUMBERS)
@examples(100)
def test_isotonic_regression_equals_its_min_max_formula(rows: list[tuple[int, int]]):
    values, weights = map(list, zip(*rows, strict=True))
    found = isotonic_regression(np.array(values, dtype=np.float64), np.array(weights, dtype=np.float64))
    assert found == pytest.approx(slow_isotonic_regression(values, weights))


def test_curve_recovers_the_expected_score():
    random = np.random.default_rng(3)
    confidences = random.uniform(0.2, 0.9, size=4000)
    scores = np.clip(100 * confidences**2 + random.normal(0, 5, size=4000), 0, 100)
    curve = ConfidenceCurve.fit(confidences.tolist(), scores.tolist())
    for one in (0.3, 0.5, 0.8):
        assert curve(one) == pytest.approx(100 * one**2, abs=2)
    assert list(curve.scores) == sorted(curve.scores)
    assert curve(0.0) == curve.scores[0]
    assert curve(1.0) == curve.scores[-1]


def test_curve_of_useless_confidence_is_the_mean():
    curve = ConfidenceCurve.fit([0.1 + 0.001 * number for number in range(200)], [90.0] * 100 + [10.0] * 100)
    assert curve(0.1) == curve(0.9) == pytest.approx(50)


def test_profile_has_the_correlation_of_its_pairs():
    references = [f"der Hund {number} spielt im Schnee" for number in range(150)]
    outputs = [text if number % 2 else "eine Katze" for number, text in enumerate(references)]
    confidences = [0.9 if number % 2 else 0.2 for number in range(150)]
    sources = [f"the dog {number} plays in the snow" for number in range(150)]
    profile, report = measure_profile(sources, outputs, references, confidences)
    assert report.pearson > 0.99
    assert profile.curve(0.9) == 100
    assert report.error < 5
    assert profile.pairs == 150
    with pytest.raises(DataError, match="99 pairs"):
        measure_profile(sources[:99], outputs[:99], references[:99], confidences[:99])


def test_statistics_describe_the_references():
    found = text_statistics(["the dog", "a house", "it rains"], ["собака", "дом", "дождь идёт OK"])
    assert found.scripts == ("CYRILLIC", "LATIN")
    assert not found.copies
    assert math.log(1.5) <= found.max_deviation <= NO_STATISTICS.max_deviation
    corrected = text_statistics(["this are a very long mistake"] * 3, ["this is a very long mistake"] * 3)
    assert corrected.copies
    assert text_statistics([" "], [""]) == NO_STATISTICS


def test_correlations():
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [2.5, 0.0, 2.5, 1.0]
    assert correlation([1, 2, 4], [2, 4, 8]) == pytest.approx(1)
    assert correlation([1, 1, 1], [2, 4, 8]) == 0
