"""Logits processors in cases that can be computed by hand, on tensors and on arrays."""

import math

import numpy as np
import pytest
import torch

from dragoman.decoding import sampling
from dragoman.decoding.numpy_logits_operations import NumpyOperations
from dragoman.decoding.sampling import apply_temperature
from dragoman.decoding.torch_logits_operations import TorchOperations

PROBABILITIES = [0.1, 0.4, 0.05, 0.3, 0.15]


def logits_of(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.double).log()


def left(logits: torch.Tensor) -> list[set[int]]:
    return [set((row > -math.inf).nonzero()[:, 0].tolist()) for row in logits]


def on_both(process):
    """Return a function that checks that a processor does the same to tensors and to arrays."""

    def run(logits: torch.Tensor, *arguments: object) -> torch.Tensor:
        found = process(logits, *arguments, TorchOperations)
        arrays = [one.numpy() if isinstance(one, torch.Tensor) else one for one in (logits, *arguments)]
        np.testing.assert_allclose(process(*arrays, NumpyOperations), found.numpy())
        return found

    return run


filter_top_k, filter_top_p, filter_min_p, filter_typical_p, apply_repetition_penalty, block_repeated_ngrams = (
    on_both(getattr(sampling, name))
    for name in (
        "filter_top_k",
        "filter_top_p",
        "filter_min_p",
        "filter_typical_p",
        "apply_repetition_penalty",
        "block_repeated_ngrams",
    )
)


def test_temperature_raises_probabilities_to_its_inverse():
    probabilities = apply_temperature(logits_of(PROBABILITIES), 0.5).softmax(dim=-1)[0]
    squares = [one**2 for one in PROBABILITIES]
    assert probabilities.tolist() == pytest.approx([one / sum(squares) for one in squares])


@pytest.mark.parametrize(
    ("count", "expected"), [(1, {1}), (2, {1, 3}), (3, {1, 3, 4}), (5, {0, 1, 2, 3, 4}), (11, {0, 1, 2, 3, 4})]
)
def test_top_k_keeps_the_most_probable(count, expected):
    assert left(filter_top_k(logits_of(PROBABILITIES), count)) == [expected]


@pytest.mark.parametrize(
    ("mass", "expected"),
    [(0.01, {1}), (0.39, {1}), (0.41, {1, 3}), (0.69, {1, 3}), (0.71, {1, 3, 4}), (0.999, {0, 1, 2, 3, 4})],
)
def test_top_p_keeps_the_fewest_with_the_mass(mass, expected):
    assert left(filter_top_p(logits_of(PROBABILITIES), mass)) == [expected]


@pytest.mark.parametrize(("share", "expected"), [(1.0, {1}), (0.7, {1, 3}), (0.3, {1, 3, 4}), (0.2, {0, 1, 3, 4})])
def test_min_p_keeps_tokens_near_the_most_probable(share, expected):
    assert left(filter_min_p(logits_of(PROBABILITIES), share)) == [expected]


def test_typical_p_may_exclude_the_most_probable():
    """The entropy is 1.29 nats; the nearest surprise is that of 0.3 (0.09 away), then those of 0.4 and 0.15."""
    probabilities = [0.6, 0.1, 0.1, 0.1, 0.1]
    assert left(filter_typical_p(logits_of(PROBABILITIES), 0.2)) == [{3}]
    assert left(filter_typical_p(logits_of(PROBABILITIES), 0.5)) == [{1, 3}]
    # Of this one it is 1.23; the surprise of 0.6 is 0.51, 0.72 away, and that of 0.1 is 2.30, 1.08 away.
    assert left(filter_typical_p(logits_of(probabilities), 0.5)) == [{0}]
    # Here it is 1.46: 0.5 is 0.77 away from it, 0.2 only 0.15.
    assert left(filter_typical_p(logits_of([0.5, 0.2, 0.1, 0.1, 0.1]), 0.15)) == [{1}]


def test_ties_keep_the_lower_tokens():
    flat = torch.zeros(1, 7)
    for few in (filter_top_k(flat, 3), filter_top_p(flat, 3 / 7 - 1e-6), filter_typical_p(flat, 3 / 7 - 1e-6)):
        assert left(few) == [{0, 1, 2}]


def test_excluded_tokens_stay_excluded():
    logits = logits_of([0.0, 0.5, 0.5], [1.0, 0.0, 0.0])
    for few in (
        filter_top_k(logits, 3),
        filter_top_p(logits, 0.99),
        filter_min_p(logits, 0.01),
        filter_typical_p(logits, 0.99),
    ):
        assert left(few) == [{1, 2}, {0}]


def test_row_without_tokens_is_unchanged():
    nothing = torch.full((1, 5), -math.inf)
    for few in (
        filter_top_k(nothing, 2),
        filter_top_p(nothing, 0.5),
        filter_min_p(nothing, 0.5),
        filter_typical_p(nothing, 0.5),
    ):
        assert left(few) == [set()]


def test_repetition_penalty_applies_once_for_any_sign():
    logits = torch.tensor([[1.0, 2.0, -2.0, 0.5, -1.0]])
    penalized = apply_repetition_penalty(logits, torch.tensor([[0, 0, 1, 2, 1]]), 2.0)
    assert penalized.tolist() == [[1.0, 1.0, -4.0, 0.5, -1.0]]


@pytest.mark.parametrize(
    ("context", "size", "forbidden"),
    [
        ([5, 6, 7, 5, 6], 3, {7}),
        ([5, 6, 7, 5, 6, 8, 5, 6], 3, {7, 8}),
        ([5, 6, 7], 1, {5, 6, 7}),
        ([5, 5], 2, {5}),
        ([5, 5, 5], 3, {5}),
        ([5, 6], 3, set()),
        ([5], 2, set()),
        ([], 2, set()),
        ([0, 0, 5, 6, 5], 2, {6}),
        ([0, 0, 5], 3, set()),
        ([0, 5, 5], 3, set()),
    ],
)
def test_block_repeated_ngrams(context, size, forbidden):
    """Contexts are padded with 0 before their first token."""
    logits = torch.zeros(1, 11)
    row = torch.tensor([context], dtype=torch.long)
    found = left(block_repeated_ngrams(logits, row, size))
    assert set(range(11)) - found[0] == forbidden | ({0} & set(context) if size == 1 else set())


def test_each_row_has_its_own_context():
    context = torch.tensor([[5, 6, 5], [0, 6, 6]])
    assert left(block_repeated_ngrams(torch.zeros(2, 7), context, 2)) == [{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}]
    penalized = apply_repetition_penalty(torch.ones(2, 7), context, 2.0)
    assert penalized.tolist() == [[1, 1, 1, 1, 1, 0.5, 0.5], [1, 1, 1, 1, 1, 1, 0.5]]
