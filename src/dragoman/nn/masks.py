"""Who may look at whom. Masks are boolean and `True` means: may look."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal(queries: int, keys: int, *, device: torch.device | None = None) -> Bool[Tensor, "1 1 {queries} {keys}"]:
    r"""Position $j$ may look at $j' \le j$; the last query stands at the last key, so that a cache may lie before."""
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(diagonal=keys - queries)
    return mask[None, None]


def within(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """The first `lengths` keys of each row are real, what follows is padding."""
    return (torch.arange(keys, device=lengths.device) < lengths[:, None])[:, None, None]


def latest(lengths: Int[Tensor, " rows"], keys: int) -> Bool[Tensor, "rows 1 1 {keys}"]:
    """The last `lengths` keys of each row are real: the layout of a cache whose rows differ in age."""
    return (torch.arange(keys, device=lengths.device) >= keys - lengths[:, None])[:, None, None]
