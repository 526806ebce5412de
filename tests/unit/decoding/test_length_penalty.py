"""Scores of finished hypotheses, and bounds on open ones."""

import numpy as np
import pytest

from dragoman.decoding import LengthPenalty
from dragoman.decoding.length_penalty import best_possible_score, length_divisor, normalize_by_length

PENALTIES = [
    LengthPenalty(),
    LengthPenalty("average", -0.5),
    LengthPenalty("gnmt", 0.6),
    LengthPenalty("gnmt", -2.0),
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
def test_bound_is_the_best_score_of_any_length(penalty):
    open_ = np.array([-3.0, -0.25, 0.0], dtype=np.float32)
    lengths = np.arange(4, 14)
    bound = best_possible_score(open_, shortest=np.full((3,), 4), longest=np.full((3,), 13), penalty=penalty)
    ends = np.stack([normalize_by_length(open_, np.full((3,), int(n)), penalty) for n in lengths])
    assert (ends <= bound).all()
    assert (ends == bound).any(axis=0).all()
