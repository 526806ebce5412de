"""Relative positions equal eqs. 3 to 5 of Shaw et al. (2018), computed pair by pair."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.models.config import DecoderOnlyConfig, SelfAttentionConfig, ShawConfig
from dragoman.models.factory import build_attention
from dragoman.nn.attention import FullAttention, MultiHeadAttention

SIZE, HEADS, PLACES, REACH = 15, 3, 11, 2


def layer(*, causal: bool, values: bool) -> MultiHeadAttention:
    config = DecoderOnlyConfig(d_model=SIZE, num_heads=HEADS, positions=ShawConfig(max_distance=REACH, values=values))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return build_attention(config, SelfAttentionConfig(), FullAttention(causal=causal)).eval()


def reference_attention(own: MultiHeadAttention, x: Tensor, *, causal: bool) -> Tensor:
    r"""Return $e_{ij} = x_i W^Q (x_j W^K + a^K_{ij})^\top / \sqrt{d_z}$, $z_i = \sum_j \alpha_{ij} (x_j W^V +
    a^V_{ij})$."""
    size = SIZE // HEADS
    key_embedding, value_embedding = own.position_bias.key_embedding, own.position_bias.value_embedding
    outputs = []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        query, key, value = ((map_(x))[:, part] for map_ in (own.query, own.key, own.value))
        rows = []
        for i in range(len(x)):
            seen = [j for j in range(len(x)) if j <= i or not causal]
            clipped = [max(-REACH, min(REACH, j - i)) + REACH for j in seen]
            scores = [
                query[i] @ (key[j] + key_embedding[c]) / math.sqrt(size) for j, c in zip(seen, clipped, strict=True)
            ]
            weights = torch.stack(scores).softmax(dim=0)
            added = [
                value[j] if value_embedding is None else value[j] + value_embedding[c]
                for j, c in zip(seen, clipped, strict=True)
            ]
            rows.append(sum(weight * one for weight, one in zip(weights, added, strict=True)))
        outputs.append(torch.stack(rows))
    return own.output(torch.cat(outputs, dim=-1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("values", [False, True])
@torch.no_grad()
def test_attention_equals_the_equations(causal: bool, values: bool) -> None:
    own = layer(causal=causal, values=values)
    x = torch.randn(PLACES, SIZE, generator=torch.Generator().manual_seed(2))
    ours = own(x[None], own.project_keys_values(x[None]), None)[0]
    torch.testing.assert_close(ours, reference_attention(own, x, causal=causal), atol=1e-5, rtol=1e-5)
