"""Scores of hypotheses of different lengths."""

import math

import numpy as np
import pytest

from dragoman.decoding import LengthPenalty
from dragoman.decoding.config import MAX_LENGTH_PENALTY
from dragoman.decoding.length_penalty import hypothesis_score, length_divisor, normalize_by_length

PENALTIES = [
    LengthPenalty(),
    LengthPenalty("average", 0.0),
    LengthPenalty("gnmt", 0.6),
    LengthPenalty("gnmt", MAX_LENGTH_PENALTY),
    LengthPenalty("none"),
]


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (LengthPenalty(), [1.0, 2.0, 7.0]),
        (LengthPenalty("average", 0.5), [1.0, 2**0.5, 7**0.5]),
        (LengthPenalty("gnmt", 1.0), [1.0, 7 / 6, 2.0]),
        (LengthPenalty("gnmt", 0.6), [1.0, (7 / 6) ** 0.6, 2**0.6]),
        (LengthPenalty("none"), [1.0, 1.0, 1.0]),
    ],
)
def test_length_divisor_by_kind(penalty, expected):
    np.testing.assert_allclose(length_divisor(np.array([1, 2, 7]), penalty), expected, rtol=1e-6)


def test_empty_hypothesis_has_a_score():
    score = normalize_by_length(np.array([0.0]), np.array([0]), LengthPenalty())
    assert score.tolist() == [0.0]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_longest_output_of_equal_log_prob_has_the_best_score(penalty):
    scores = [normalize_by_length(np.full(1, -3.0), np.array([length]), penalty).item() for length in range(1, 14)]
    assert scores == sorted(scores)


@pytest.mark.parametrize("kind", ["average", "gnmt"])
def test_largest_exponent_ranks_hypotheses(kind):
    penalty = LengthPenalty(kind, MAX_LENGTH_PENALTY)
    log_probs = np.array([-1e-6, -50.0, -49.0, -2e5], dtype=np.float32)
    scores = normalize_by_length(log_probs, np.array([1, 2000, 2000, 65_536]), penalty)
    assert (scores < 0).all()
    assert len(set(scores.tolist())) == 4
    assert scores[1] < scores[2]
    exact = math.log(50) - penalty.alpha * math.log(2000 if kind == "average" else 2005 / 6)
    assert math.log(-scores[1]) == pytest.approx(exact)


def test_score_of_one_hypothesis_equals_that_of_an_array():
    log_prob = np.float32(-7.3)
    penalty = LengthPenalty("gnmt", 0.7)
    assert hypothesis_score(float(log_prob), 11, penalty) == normalize_by_length(
        np.array([log_prob]), np.array([11]), penalty
    )
