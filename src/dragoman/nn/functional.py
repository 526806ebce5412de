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

from dragoman.nn.cpu_ops import CpuAttention, cpu_ops_for
from dragoman.nn.dropout import dropout
from dragoman.nn.masks import causal_mask as causal_mask
from dragoman.nn.scores import Logits, MappedKeys, MappedQueries, repeat_kv_heads, scaled_dot
from dragoman.typing import Bool, Float

Values = Float[Tensor, "rows key_heads keys value_size"]
Mask = Bool[Tensor, "#rows #heads #queries keys"]
Bias = Float[Tensor, "#rows heads queries keys"]
AttentionOutput = Float[Tensor, "rows heads queries value_size"]
ScoreFunction = Callable[[MappedQueries, MappedKeys], Logits]


MAX_CPU_OPS_LENGTH = 64
"""Places up to which the compiled core computes attention; beyond, the blocks of PyTorch's kernels are faster."""
RelativeValues = Callable[[Logits], AttentionOutput]
"""What the distances themselves add to the values, of weights (Shaw et al., 2018, eq. 3)."""


def masked_softmax(logits: Logits, mask: Mask | None) -> Logits:
    """Softmax over the mask keys, exactly zero elsewhere; a query that may see nothing receives zeros."""
    if mask is None:
        return logits.softmax(dim=-1)
    lowest = torch.finfo(logits.dtype).min
    weights = logits.masked_fill(~mask, lowest).softmax(dim=-1)
    return weights * mask.any(dim=-1, keepdim=True)


def attention_weights(
    query: MappedQueries,
    key: MappedKeys,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    compare: ScoreFunction = scaled_dot,
) -> Logits:
    """How much each query takes of each key, by the reference road."""
    logits = compare(query, key)
    return masked_softmax(logits if bias is None else logits + bias, mask)


def reference_attention(
    query: MappedQueries,
    key: MappedKeys,
    value: Values,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    compare: ScoreFunction = scaled_dot,
    drop: float = 0.0,
    of_distances: RelativeValues | None = None,
) -> AttentionOutput:
    """The reference road; `drop` is the dropout on the weights (0 outside training)."""
    weights = dropout(attention_weights(query, key, mask=mask, bias=bias, compare=compare), drop)
    attended = weights @ repeat_kv_heads(value, weights.shape[1])
    return attended if of_distances is None else attended + of_distances(weights)


def fused_attention(
    query: MappedQueries,
    key: MappedKeys,
    value: Values,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> AttentionOutput:
    r"""The fast road: the same values without ever holding the weights, for a score $\mathtt{scale} \cdot q^\top k$.

    `causal` is for as many queries as keys, without another mask. Without a `scale` it is $1 / \sqrt{d}$.
    """
    grouped = query.shape[1] != key.shape[1]
    plain = bias is None and key.shape == value.shape and not grouped
    if plain and max(query.shape[2], key.shape[2]) <= MAX_CPU_OPS_LENGTH and (core := cpu_ops_for(query)) is not None:
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        seen = None if mask is None else mask.expand(*mask.shape[:3], key.shape[2])
        return CpuAttention.apply(query, key, value, seen, causal, scale, core)  # type: ignore[no-untyped-call]
    attn_mask: Tensor | None = mask
    if bias is not None:
        attn_mask = bias if mask is None else bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
        attn_mask = attn_mask.to(query.dtype)
    attended = F.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    if bias is not None and mask is not None:  # where nothing is mask, the kernels saw a row of equals
        attended = attended * mask.any(dim=-1, keepdim=True)
    return attended


def add_causal_mask(
    mask: Mask | None, *, queries: int, keys: int, past_length: int, device: torch.device
) -> Bool[Tensor, "#rows #heads #queries keys"] | None:
    """`mask` without the future; none where there is neither."""
    if queries == 1 and past_length >= keys - 1:
        return mask
    past = causal_mask(queries, keys, past_length=past_length, device=device)
    return past if mask is None else mask & past


def map_query_chunks(
    road: Callable[[MappedQueries, Mask | None, int], Tensor],
    query: MappedQueries,
    mask: Mask | None,
    *,
    chunk: int,
) -> AttentionOutput:
    """`road(queries, their mask keys, number of the first)` for `chunk` queries at a time, joined.

    Under gradients a chunk keeps nothing but its queries and is computed again in the backward pass.
    """
    queries = query.shape[2]
    if chunk >= queries:
        return road(query, mask, 0)
    parts = []
    for first in range(0, queries, chunk):
        some = query[:, :, first : first + chunk]
        theirs = mask if mask is None or mask.shape[2] == 1 else mask[:, :, first : first + chunk]
        if torch.is_grad_enabled():
            parts.append(checkpoint(road, some, theirs, first, use_reentrant=False))
        else:
            parts.append(road(some, theirs, first))
    return torch.cat(parts, dim=2)
