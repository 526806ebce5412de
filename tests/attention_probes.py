"""Attention functions for tests of sparse patterns: a dense one with a bias per distance, and one that counts pairs."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from dragoman.nn.attention_functions import VisibleKeys


def dense_attention(query: Tensor, key: Tensor, value: Tensor, visible: VisibleKeys) -> Tensor:
    """Compute attention with explicit sums; a given distance adds its own number to the score."""
    mask, past_length = visible.mask, visible.past_length
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    scores = torch.einsum("rhqw,rhkw->rhqk", query, key) / query.shape[3] ** 0.5
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    if past_length is not None:
        away = torch.arange(key.shape[2]) - torch.arange(query.shape[2])[:, None] - past_length
        scores = scores + torch.sin(3.0 * away)
        seen = seen & (away <= 0) if visible.causal else seen
    assert past_length is not None or not visible.causal
    exponentials = torch.where(seen, scores, -torch.inf).sub(scores.amax().detach()).exp()
    sums = exponentials.sum(dim=-1, keepdim=True)
    return torch.einsum("rhqk,rhkv->rhqv", exponentials / sums.where(sums > 0, 1.0), value)


@dataclass
class CountingAttention:
    """Dense attention without distances that counts the query-key pairs it computes."""

    calls: list[tuple[int, int, int]] = field(default_factory=list)
    """Rows, queries and keys of each call."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, visible: VisibleKeys) -> Tensor:
        self.calls.append((query.shape[0], query.shape[2], key.shape[2]))
        return dense_attention(query, key, value, VisibleKeys(visible.mask))

    @property
    def pairs(self) -> int:
        return sum(rows * queries * keys for rows, queries, keys in self.calls)


def inputs(
    *,
    rows: int = 2,
    heads: int = 3,
    key_heads: int | None = None,
    queries: int,
    keys: int | None = None,
    width: int = 5,
    value_size: int = 7,
    seed: int = 0,
) -> list[Tensor]:
    """Return queries, keys and values in double precision that require gradients."""
    generator = torch.Generator().manual_seed(seed)
    key_heads, keys = key_heads or heads, keys or queries
    shapes = [(heads, queries, width), (key_heads, keys, width), (key_heads, keys, value_size)]
    return [torch.randn(rows, *shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
