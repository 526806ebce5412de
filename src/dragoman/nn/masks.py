"""Attention masks. Masks are boolean; `True` means that the query may attend to the key."""

import torch
from torch import Tensor

from dragoman.array_types import Bool, Int


def distances(
    queries: int, keys: int, *, past_length: int, device: torch.device | None = None
) -> Int[Tensor, "{queries} {keys}"]:
    r"""Distances $j - i$ of query $i$ and key $j$, with `past_length` keys before the first query."""
    return torch.arange(keys, device=device) - torch.arange(past_length, past_length + queries, device=device)[:, None]


def causal_mask(
    queries: int, keys: int, *, past_length: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "1 1 {queries} {keys}"]:
    r"""Position $i$ may attend to $j \le i$; by default, the last query is aligned with the last key."""
    past_length = keys - queries if past_length is None else past_length
    return (distances(queries, keys, past_length=past_length, device=device) <= 0)[None, None]


def padding_mask(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """Return the mask of rows whose first `lengths` keys are tokens, followed by padding."""
    return (torch.arange(keys, device=lengths.device) < lengths[:, None])[:, None, None]


def left_padding_mask(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """Return the mask of rows whose last `lengths` keys are tokens, as in a cache of hypotheses of different length."""
    return (torch.arange(keys, device=lengths.device) >= keys - lengths[:, None])[:, None, None]


def document_mask(groups: Int[Tensor, "rows positions"]) -> Bool[Tensor, "rows 1 positions positions"]:
    """Return the mask in which only positions of the same document attend to each other."""
    return (groups[:, :, None] == groups[:, None, :])[:, None]
