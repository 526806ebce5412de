"""Who may look at whom. Masks are boolean and `True` means: may look."""

import torch
from torch import Tensor

from dragoman.typing import Bool, Int


def distances(
    queries: int, keys: int, *, past_length: int, device: torch.device | None = None
) -> Int[Tensor, "{queries} {keys}"]:
    r"""$j - i$ from query place $i$ to key place $j$; `past_length` keys stand past_length the place of the first query."""
    return torch.arange(keys, device=device) - torch.arange(past_length, past_length + queries, device=device)[:, None]


def causal_mask(
    queries: int, keys: int, *, past_length: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "1 1 {queries} {keys}"]:
    r"""Position $j$ may look at $j' \le j$; unless `past_length` is given, the last query stands at the last key."""
    past_length = keys - queries if past_length is None else past_length
    return (distances(queries, keys, past_length=past_length, device=device) <= 0)[None, None]


def padding_mask(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """The first `lengths` keys of each row are real, what follows is padding."""
    return (torch.arange(keys, device=lengths.device) < lengths[:, None])[:, None, None]


def left_padding_mask(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """The last `lengths` keys of each row are real: the layout of a cache whose rows differ in age."""
    return (torch.arange(keys, device=lengths.device) >= keys - lengths[:, None])[:, None, None]


def document_mask(groups: Int[Tensor, "rows places"]) -> Bool[Tensor, "rows 1 places places"]:
    """Places of one group, such as the tokens of one document, may look at one another."""
    return (groups[:, :, None] == groups[:, None, :])[:, None]
