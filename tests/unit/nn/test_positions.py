"""Sinusoidal and learned positions."""

import math

import pytest
import torch

from dragoman.errors import DataError
from dragoman.nn.positions.learned import LearnedPositions
from dragoman.nn.positions.sinusoidal import SinusoidalPositions, sinusoidal_positions


def by_formula(position, size):
    """PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d))."""
    vector = []
    for place in range(size):
        angle = position / 10000 ** ((place - place % 2) / size)
        vector.append(math.sin(angle) if place % 2 == 0 else math.cos(angle))
    return vector


@pytest.mark.parametrize("size", [1, 2, 5, 14, 64])
def test_sinusoidal_equals_formula(size):
    places = [0, 1, 2, 3, 17, 101]
    expected = torch.tensor([by_formula(place, size) for place in places])
    torch.testing.assert_close(sinusoidal_positions(torch.tensor(places), size), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [4, 6, 14, 64])
def test_sinusoidal_halves_with_inclusive_rates(size):
    count = size // 2
    rates = [10000 ** (-i / (count - 1)) for i in range(count)]
    expected = [[function(place * rate) for function in (math.sin, math.cos) for rate in rates] for place in (2, 3, 19)]
    module = SinusoidalPositions(size=size, order="halves", inclusive=True, offset=2)
    torch.testing.assert_close(module(torch.tensor([0, 1, 17])), torch.tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("order", ["interleaved", "halves"])
def test_smallest_inclusive_sinusoids_are_finite(size, order):
    assert sinusoidal_positions(torch.arange(5), size, order=order, inclusive=True).isfinite().all()


def test_sinusoidal_positions_equal_m2m100():
    marian = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100", reason="transformers is not installed")
    theirs = marian.M2M100SinusoidalPositionalEmbedding(30, 14, padding_idx=1)
    ids = torch.full((1, 23), 5)
    ours = SinusoidalPositions(size=14, order="halves", inclusive=True, offset=2)
    torch.testing.assert_close(ours(torch.arange(23)), theirs(ids)[0], atol=1e-5, rtol=0)


def test_sinusoidal_has_no_limit():
    far = torch.tensor([100_003])
    torch.testing.assert_close(sinusoidal_positions(far, 6), torch.tensor([by_formula(100_003, 6)]), atol=0.02, rtol=0)


def test_positions_may_have_any_shape():
    places = torch.tensor([[0, 3, 5], [7, 1, 0]])
    module = SinusoidalPositions(size=11)
    assert list(module.parameters()) == []
    assert module(places).shape == (2, 3, 11)
    assert torch.equal(module(places)[1, 0], sinusoidal_positions(torch.tensor([7]), 11)[0])


def test_learned_positions_return_table_rows():
    table = LearnedPositions(max_length=5, size=3)
    places = torch.tensor([[0, 4], [2, 2]])
    assert torch.equal(table(places), table.table.weight[places])
    assert table(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0, 3)


def test_learned_positions_start_after_the_offset():
    table = LearnedPositions(max_length=5, size=3, offset=2)
    assert table.table.weight.shape == (7, 3)
    assert torch.equal(table(torch.tensor([0, 4])), table.table.weight[[2, 6]])
    with pytest.raises(DataError, match=r"position 5, .* end at 4"):
        table(torch.tensor([5]))


def test_learned_positions_refuse_long_sequences():
    table = LearnedPositions(max_length=5, size=3)
    with pytest.raises(DataError, match=r"position 7, .* end at 4; shorten .* larger model\.positions\.max_length"):
        table(torch.tensor([[0, 1], [7, 5]]))
    with pytest.raises(DataError, match="position 5"):
        table(torch.tensor([[5]]))
