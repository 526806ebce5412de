"""Rotary positions and position biases compared with their formulas."""

import math

import pytest
import torch

from dragoman.nn.attention import PositionBias
from dragoman.nn.positions.alibi import AlibiBias, alibi_slopes
from dragoman.nn.positions.rotary import RotaryPositions, apply_rotary
from dragoman.nn.positions.shaw import ShawPositions
from dragoman.nn.positions.t5_bias import T5Bias, relative_position_bucket


def query(*, heads=3, queries=4, size=6):
    return torch.randn(2, heads, queries, size, generator=torch.Generator().manual_seed(1))


def test_rotary_equals_formula():
    x = query(queries=3)
    turned = apply_rotary(x, torch.tensor([[0, 1, 5]]), base=7.0)
    for index, place in enumerate((0, 1, 5)):
        for pair in range(3):
            angle = place * 7.0 ** (-2 * pair / 6)
            left, right = x[1, 2, index, pair], x[1, 2, index, pair + 3]
            expected = [
                left * math.cos(angle) - right * math.sin(angle),
                right * math.cos(angle) + left * math.sin(angle),
            ]
            torch.testing.assert_close(turned[1, 2, index, [pair, pair + 3]], torch.stack(expected))


def test_rotary_product_depends_on_distance():
    q, k = query(queries=1), query(queries=1, size=6).flip(0)
    rotary = RotaryPositions(base=11.0)

    def products(first, second):
        return (rotary(q, torch.tensor([[first]])) * rotary(k, torch.tensor([[second]]))).sum(-1)

    torch.testing.assert_close(products(2, 7), products(102, 107), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(products(2, 7), products(2, 8), atol=1e-3)
    assert list(rotary.parameters()) == []


def test_rows_may_have_different_positions():
    x = query(queries=2)
    together = apply_rotary(x, torch.tensor([[3, 4], [0, 9]]), base=11.0)
    torch.testing.assert_close(together[:1], apply_rotary(x[:1], torch.tensor([[3, 4]]), base=11.0))
    torch.testing.assert_close(together[1:], apply_rotary(x[1:], torch.tensor([[0, 9]]), base=11.0))


@pytest.mark.parametrize("past_only", [True, False])
def test_t5_buckets_equal_formula(past_only):
    away = torch.arange(-300, 301)
    rows = relative_position_bucket(away, num_buckets=16, max_distance=64, causal=past_only)
    assert rows.min() == 0
    assert rows.max() == 15
    behind = {int(place): int(row) for place, row in zip(away, rows, strict=True) if place <= 0}
    exact = 8 if past_only else 4
    assert [behind[-place] for place in range(exact)] == list(range(exact))
    assert behind[-64] == behind[-300] == max(behind.values())
    assert all(behind[-place] >= behind[-place + 1] for place in range(1, 300))
    ahead = {int(row) for place, row in zip(away, rows, strict=True) if place > 0}
    assert ahead == ({0} if past_only else set(range(9, 16)))


def test_t5_bias_per_bucket_and_head():
    positions = T5Bias(num_buckets=8, max_distance=7, num_heads=3, causal=True)
    torch.nn.init.normal_(positions.table, generator=torch.Generator().manual_seed(2))
    bias = positions.bias(query(), keys=9, past_length=5)
    assert bias.shape == (1, 3, 4, 9)
    for i, j in [(0, 5), (0, 0), (3, 8), (2, 4)]:
        row = relative_position_bucket(torch.tensor(j - i - 5), num_buckets=8, max_distance=7, causal=True)
        assert torch.equal(bias[0, :, i, j], positions.table[row])


def test_alibi_slopes_equal_paper():
    assert alibi_slopes(8).tolist() == [2.0**-number for number in range(1, 9)]
    assert alibi_slopes(16).tolist() == pytest.approx([2 ** (-number / 2) for number in range(1, 17)])


def test_alibi_bias_is_symmetric():
    bias = AlibiBias(num_heads=8).bias(query(heads=8), keys=9, past_length=4)
    assert bias.shape == (1, 8, 4, 9)
    assert bias[0, 0, 1].tolist() == [-2.5, -2.0, -1.5, -1.0, -0.5, 0.0, -0.5, -1.0, -1.5]
    assert bias[0, 1, 0].tolist() == [-1.0, -0.75, -0.5, -0.25, 0.0, -0.25, -0.5, -0.75, -1.0]


def test_shaw_clips_distances():
    positions = ShawPositions(max_distance=2, head_size=6, scale=0.5, adds_values=True)
    q = query()
    bias = positions.bias(q, keys=9, past_length=3)
    for i, j in [(0, 0), (0, 3), (1, 3), (3, 8), (2, 4)]:
        row = max(-2, min(2, j - i - 3)) + 2
        torch.testing.assert_close(bias[..., i, j], 0.5 * q[:, :, i] @ positions.key_embedding[row])


def test_shaw_values_equal_formula():
    positions = ShawPositions(max_distance=2, head_size=6, scale=0.5, adds_values=True)
    weights = torch.rand(2, 3, 4, 9, generator=torch.Generator().manual_seed(5))
    expected = torch.zeros(2, 3, 4, 6)
    for i in range(4):
        for j in range(9):
            row = max(-2, min(2, j - i - 3)) + 2
            expected[:, :, i] += weights[:, :, i, j, None] * positions.value_embedding[row]
    torch.testing.assert_close(positions.values(weights, past_length=3), expected)


def test_biases_implement_protocol():
    assert isinstance(ShawPositions(max_distance=2, head_size=6, scale=1.0, adds_values=False), PositionBias)
    assert isinstance(T5Bias(num_buckets=8, max_distance=7, num_heads=3, causal=True), PositionBias)
    assert isinstance(AlibiBias(num_heads=3), PositionBias)
