"""Looks to hand to a pattern: dense attention with a bias that tells every distance apart, and one that keeps count."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


def dense_look(
    query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None, causal: bool, past_length: int | None
) -> Tensor:
    """The equation with explicit sums; where distances are told, each adds a number of its own to the score."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    scores = torch.einsum("rhqw,rhkw->rhqk", query, key) / query.shape[3] ** 0.5
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    if past_length is not None:
        away = torch.arange(key.shape[2]) - torch.arange(query.shape[2])[:, None] - past_length
        scores = scores + torch.sin(3.0 * away)
        seen = seen & (away <= 0) if causal else seen
    assert past_length is not None or not causal
    exponentials = torch.where(seen, scores, -torch.inf).sub(scores.amax().detach()).exp()
    sums = exponentials.sum(dim=-1, keepdim=True)
    return torch.einsum("rhqk,rhkv->rhqv", exponentials / sums.where(sums > 0, 1.0), value)


@dataclass
class CountingLook:
    """Dense attention without distances that notes how many pairs of a query and a key it was asked for."""

    calls: list[tuple[int, int, int]] = field(default_factory=list)
    """Rows, queries and keys of each call."""

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None, causal: bool, past_length: int | None
    ) -> Tensor:
        self.calls.append((query.shape[0], query.shape[2], key.shape[2]))
        return dense_look(query, key, value, mask=mask, causal=False, past_length=None)

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
    """Queries, keys and values in double precision that want gradients."""
    generator = torch.Generator().manual_seed(seed)
    key_heads, keys = key_heads or heads, keys or queries
    shapes = [(heads, queries, width), (key_heads, keys, width), (key_heads, keys, value_size)]
    return [torch.randn(rows, *shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
