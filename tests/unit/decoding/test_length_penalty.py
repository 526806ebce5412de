"""Scores of finished hypotheses, and bounds on open ones."""

import numpy as np
import pytest

from dragoman.decoding import Average, Gnmt, Raw
from dragoman.decoding.length_penalty import attainable, normalised, penalty


@pytest.mark.parametrize(
    ("normalisation", "expected"),
    [
        (Average(), [1.0, 2.0, 7.0]),
        (Average(alpha=0.5), [1.0, 2**0.5, 7**0.5]),
        (Gnmt(alpha=1.0), [1.0, 7 / 6, 2.0]),
        (Gnmt(alpha=0.6), [1.0, (7 / 6) ** 0.6, 2**0.6]),
        (Raw(), [1.0, 1.0, 1.0]),
    ],
)
def test_what_log_probabilities_are_divided_by(normalisation, expected):
    np.testing.assert_allclose(penalty(np.array([1, 2, 7]), normalisation), expected, rtol=1e-6)


def test_a_hypothesis_of_no_symbols_has_a_score():
    score = normalised(np.array([0.0]), np.array([0]), Average())
    assert score.tolist() == [0.0]


@pytest.mark.parametrize("normalisation", [Average(), Average(alpha=-0.5), Gnmt(), Gnmt(alpha=-2.0), Raw()])
def test_no_end_is_better_than_the_bound(normalisation):
    open_ = np.array([-3.0, -0.25, 0.0], dtype=np.float32)
    lengths = np.arange(4, 14)
    bound = attainable(open_, shortest=np.full((3,), 4), longest=np.full((3,), 13), normalisation=normalisation)
    ends = np.stack([normalised(open_, np.full((3,), int(n)), normalisation) for n in lengths])
    assert (ends <= bound).all()
    assert (ends == bound).any(axis=0).all()
