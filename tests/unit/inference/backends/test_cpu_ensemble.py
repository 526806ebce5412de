"""Arithmetic of CPU ensembles: mean probabilities, shortlists and exact top-k."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.decoding.numpy_logits_operations import top_k_sorted
from dragoman.errors import RunError
from dragoman.inference.backends.cpu_backend import CpuEnsemble, mean_probability

FEW = st.integers(-2, 2).map(np.float32)
"""Few distinct values, so that ties are common."""
rows = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(2, 9))


@given(rows.flatmap(lambda shape: st.tuples(arrays(np.float32, shape, elements=FEW), st.integers(1, shape[-1]))))
def test_top_k_sorted_keeps_the_first_of_ties(drawn):
    numbers, count = drawn
    found, places = top_k_sorted(numbers, count)
    for row, best, theirs in zip(
        numbers.reshape(-1, numbers.shape[-1]), found.reshape(-1, count), places.reshape(-1, count), strict=True
    ):
        sorted_ = sorted(range(len(row)), key=lambda place: (-row[place], place))[:count]
        assert theirs.tolist() == sorted_
        assert best.tolist() == [row[place] for place in sorted_]


logits = st.floats(-200, 200, width=32)


@given(rows.flatmap(lambda shape: st.lists(arrays(np.float32, shape, elements=logits), min_size=1, max_size=3)))
def test_mean_probability_is_stable(several):
    exact = [one.astype(np.longdouble) for one in several]
    probabilities = [np.exp(one - one.max(-1, keepdims=True)) for one in exact]
    mean = sum(one / one.sum(-1, keepdims=True) for one in probabilities) / len(several)
    np.testing.assert_allclose(mean_probability(several), np.log(mean), rtol=1e-5, atol=1e-4)


class Stub:
    """Model with constant logits."""

    max_length = None

    def __init__(self, *logits: float) -> None:
        self._logits = np.array([[logits]], dtype=np.float32)

    def encode(self, sources, trees):
        return "memory"

    def start(self, memory, *, beam_size):
        return "state"

    def step(self, tokens, memory, state):
        return self._logits, state


def asked(*networks: Stub, shortlist=None, **options):
    together = CpuEnsemble(networks)
    together.shortlist = shortlist
    memory = together.encode([[4]])
    log_probs, tokens, _ = together.top_k(
        np.zeros((1, 1), dtype=np.int32), memory, together.start(memory, beam_size=1), **options
    )
    return dict(zip(tokens[0, 0].tolist(), np.exp(log_probs[0, 0]).tolist(), strict=True))


ONE, OTHER = Stub(*map(math.log, (0.7, 0.2, 0.1))), Stub(*map(math.log, (0.1, 0.6, 0.3)))


def test_token_probability_is_the_mean():
    assert asked(ONE, OTHER, k=5) == pytest.approx({0: 0.4, 1: 0.4, 2: 0.2})
    assert asked(ONE, OTHER, k=1, suppress_tokens=[0]) == pytest.approx({1: 0.4})


def test_shortlist_probabilities_are_renormalized():
    found = asked(
        ONE,
        OTHER,
        k=2,
        shortlist=SimpleNamespace(tokens_for_each=lambda sources, needed: [np.array([1, 2])] * len(sources)),
    )
    assert found == pytest.approx({1: 2 / 3, 2: 1 / 3})


def test_non_finite_logits_are_refused():
    with pytest.raises(RunError, match="not finite numbers"):
        asked(ONE, Stub(0.0, math.inf, 0.0), k=1)
