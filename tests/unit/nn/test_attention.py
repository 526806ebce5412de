"""Multi-head attention: split, attend, concatenate, project."""

import math

import pytest
import torch

from dragoman.nn.attention import FullAttention, Heads, MultiHeadAttention
from dragoman.nn.attention_score_functions import DotScore
from dragoman.nn.masks import causal_mask, padding_mask
from tests.reference_layers import attention


def layer(*, heads=3, num_kv_heads=3, bias=True, dropout=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return MultiHeadAttention(
            d_model=5 * heads,
            heads=Heads(heads, heads // num_kv_heads),
            bias=bias,
            dropout=dropout,
            score=DotScore(scale=1 / math.sqrt(5)),
            pattern=FullAttention(causal=False),
        ).eval()


def inputs(size, *, places=7):
    return torch.randn(2, places, size, generator=torch.Generator().manual_seed(places))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("heads", "num_kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 2)])
def test_attention_equals_equation(heads, num_kv_heads, bias):
    own = layer(heads=heads, num_kv_heads=num_kv_heads, bias=bias)
    x, other = inputs(5 * heads), inputs(5 * heads, places=11)
    mask = padding_mask(torch.tensor([2, 11]), 11)
    seen = own.project_keys_values(other)
    assert seen.keys.shape == (2, num_kv_heads, 11, 5)
    torch.testing.assert_close(own(x, seen, mask), attention(own, x, other, mask))


def test_dropout_applies_in_training_only():
    own = layer(dropout=0.5)
    x = inputs(15)
    seen, mask = own.project_keys_values(x), causal_mask(7, 7)
    torch.testing.assert_close(own(x, seen, mask), attention(own, x, x, mask))
    own.train()
    assert not torch.equal(own(x, seen, mask), own(x, seen, mask))


def test_training_without_drops_equals_equation():
    own = layer(dropout=1e-9).train()
    x = inputs(15)
    torch.testing.assert_close(
        own(x, own.project_keys_values(x), causal_mask(7, 7)), attention(own, x, x, causal_mask(7, 7))
    )
