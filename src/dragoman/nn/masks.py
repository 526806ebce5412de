"""Who may look at whom. Masks are boolean and `True` means: may look."""

import torch
from torch import Tensor

from dragoman.typing import Bool, Int


def distances(
    queries: int, keys: int, *, before: int, device: torch.device | None = None
) -> Int[Tensor, "{queries} {keys}"]:
    r"""$j - i$ from query place $i$ to key place $j$; `before` keys stand before the place of the first query."""
    return torch.arange(keys, device=device) - torch.arange(before, before + queries, device=device)[:, None]


def causal(
    queries: int, keys: int, *, before: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "1 1 {queries} {keys}"]:
    r"""Position $j$ may look at $j' \le j$; unless `before` is given, the last query stands at the last key."""
    before = keys - queries if before is None else before
    return (distances(queries, keys, before=before, device=device) <= 0)[None, None]


def within(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """The first `lengths` keys of each row are real, what follows is padding."""
    return (torch.arange(keys, device=lengths.device) < lengths[:, None])[:, None, None]


def latest(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """The last `lengths` keys of each row are real: the layout of a cache whose rows differ in age."""
    return (torch.arange(keys, device=lengths.device) >= keys - lengths[:, None])[:, None, None]


def alike(groups: Int[Tensor, "rows places"]) -> Bool[Tensor, "rows 1 places places"]:
    """Places of one group, such as the tokens of one document, may look at one another."""
    return (groups[:, :, None] == groups[:, None, :])[:, None]
