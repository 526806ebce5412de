r"""Attention, $\mathrm{softmax}(e(Q, K))\,V$ with any score $e$; with the scaled dot product it is eq. 1 of Vaswani et
al. (2017).

`attend` is the equation as it is written. `attend_fused` is the fast road where the score is an inner product:
PyTorch's fused kernels, which never hold the weights. `in_chunks` is the lean road for every other score: a few queries
at a time, computed again in the backward pass. The three agree by law.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dragoman.nn.cpu_ops import AttendedByCore, core_for
from dragoman.nn.dropout import dropout
from dragoman.nn.masks import causal as causal_mask
from dragoman.nn.scores import Logits, MappedKeys, MappedQueries, scaled_dot, share
from dragoman.typing import Bool, Float

Values = Float[Tensor, "rows key_heads keys value_size"]
Allowed = Bool[Tensor, "#rows #heads #queries keys"]
Bias = Float[Tensor, "#rows heads queries keys"]
Attended = Float[Tensor, "rows heads queries value_size"]
Compare = Callable[[MappedQueries, MappedKeys], Logits]


SHORT = 64
"""Places up to which the compiled core computes attention; beyond, the blocks of PyTorch's kernels are faster."""
ValuesOfDistances = Callable[[Logits], Attended]
"""What the distances themselves add to the values, of weights (Shaw et al., 2018, eq. 3)."""


def weigh(logits: Logits, allowed: Allowed | None) -> Logits:
    """Softmax over the allowed keys, exactly zero elsewhere; a query that may see nothing receives zeros."""
    if allowed is None:
        return logits.softmax(dim=-1)
    lowest = torch.finfo(logits.dtype).min
    weights = logits.masked_fill(~allowed, lowest).softmax(dim=-1)
    return weights * allowed.any(dim=-1, keepdim=True)


def weights_of(
    query: MappedQueries,
    key: MappedKeys,
    *,
    allowed: Allowed | None = None,
    bias: Bias | None = None,
    compare: Compare = scaled_dot,
) -> Logits:
    """How much each query takes of each key, by the reference road."""
    logits = compare(query, key)
    return weigh(logits if bias is None else logits + bias, allowed)


def attend(
    query: MappedQueries,
    key: MappedKeys,
    value: Values,
    *,
    allowed: Allowed | None = None,
    bias: Bias | None = None,
    compare: Compare = scaled_dot,
    drop: float = 0.0,
    of_distances: ValuesOfDistances | None = None,
) -> Attended:
    """The reference road; `drop` is the dropout on the weights (0 outside training)."""
    weights = dropout(weights_of(query, key, allowed=allowed, bias=bias, compare=compare), drop)
    attended = weights @ share(value, weights.shape[1])
    return attended if of_distances is None else attended + of_distances(weights)


def attend_fused(
    query: MappedQueries,
    key: MappedKeys,
    value: Values,
    *,
    allowed: Allowed | None = None,
    bias: Bias | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Attended:
    r"""The fast road: the same values without ever holding the weights, for a score $\mathtt{scale} \cdot q^\top k$.

    `causal` is for as many queries as keys, without another mask. Without a `scale` it is $1 / \sqrt{d}$.
    """
    grouped = query.shape[1] != key.shape[1]
    plain = bias is None and key.shape == value.shape and not grouped
    if plain and max(query.shape[2], key.shape[2]) <= SHORT and (core := core_for(query)) is not None:
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        seen = None if allowed is None else allowed.expand(*allowed.shape[:3], key.shape[2])
        return AttendedByCore.apply(query, key, value, seen, causal, scale, core)  # type: ignore[no-untyped-call]
    mask: Tensor | None = allowed
    if bias is not None:
        mask = bias if allowed is None else bias.masked_fill(~allowed, torch.finfo(bias.dtype).min)
        mask = mask.to(query.dtype)
    attended = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    if bias is not None and allowed is not None:  # where nothing is allowed, the kernels saw a row of equals
        attended = attended * allowed.any(dim=-1, keepdim=True)
    return attended


def narrowed(
    allowed: Allowed | None, *, queries: int, keys: int, before: int, device: torch.device
) -> Bool[Tensor, "#rows #heads #queries keys"] | None:
    """`allowed` without the future; none where there is neither."""
    if queries == 1 and before >= keys - 1:
        return allowed
    past = causal_mask(queries, keys, before=before, device=device)
    return past if allowed is None else allowed & past


def in_chunks(
    road: Callable[[MappedQueries, Allowed | None, int], Tensor],
    query: MappedQueries,
    allowed: Allowed | None,
    *,
    chunk: int,
) -> Attended:
    """`road(queries, their allowed keys, number of the first)` for `chunk` queries at a time, joined.

    Under gradients a chunk keeps nothing but its queries and is computed again in the backward pass.
    """
    queries = query.shape[2]
    if chunk >= queries:
        return road(query, allowed, 0)
    parts = []
    for first in range(0, queries, chunk):
        some = query[:, :, first : first + chunk]
        theirs = allowed if allowed is None or allowed.shape[2] == 1 else allowed[:, :, first : first + chunk]
        if torch.is_grad_enabled():
            parts.append(checkpoint(road, some, theirs, first, use_reentrant=False))
        else:
            parts.append(road(some, theirs, first))
    return torch.cat(parts, dim=2)
