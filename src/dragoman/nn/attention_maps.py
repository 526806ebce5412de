r"""Weights and masks of an attention module.

Fused kernels never materialize the weights, and sparse patterns fold rows, cut blocks and gather keys. We therefore
replace the value of key $j$ by the unit vector $\mathbf{1}_j$. The output of attention,
$\sum_j a_{ij} \, \mathbf{1}_j = a_i$, is then the row of weights over the whole sequence, for any pattern. The
arithmetic is that of the reference implementation.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dragoman.array_types import Bool, Float
from dragoman.nn.attention import KeyMask, MultiHeadAttention, PositionIds, RelationIds
from dragoman.nn.attention_functions import AttentionOutput, Values, VisibleKeys
from dragoman.nn.attention_score_functions import Logits, MappedKeys, MappedQueries, repeat_kv_heads
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.sparse.linformer import Linformer

AttentionWeights = Float[Tensor, "rows heads queries attended"]
AttentionMask = Bool[Tensor, "rows heads queries attended"]
WeightFunction = Callable[[MappedQueries, MappedKeys, VisibleKeys], Logits]
"""Weights of one dense attention inside a pattern."""


def attention_maps(
    attention: MultiHeadAttention,
    x: Float[Tensor, "rows queries size"],
    cache: KVCache,
    mask: KeyMask | None,
    positions: PositionIds | None = None,
    relations: RelationIds | None = None,
) -> tuple[AttentionWeights, AttentionMask]:
    """Return weights before dropout, and mask, of an attention module called with these inputs.

    The mask combines pattern, causality and padding. Each row of weights sums to one over the keys that its query may
    attend to, and is zero elsewhere. A query that may attend to nothing has zero weights. The keys of Linformer are its
    projected positions.
    """
    query, function = attention.project_queries(x, positions), attention.attention_weights
    if relations is not None:
        function = partial(function, relations=relations)
    weights = _apply_pattern(attention, query, cache, mask, function)
    return weights, _apply_pattern(attention, query, cache, mask, _mask_as_weights) > 0


def _apply_pattern(
    attention: MultiHeadAttention, query: MappedQueries, cache: KVCache, mask: KeyMask | None, function: WeightFunction
) -> AttentionWeights:
    """Return the weights, or the masks, that `function` computes for each dense attention inside the pattern."""
    rows, heads, keys, _ = cache.keys.shape
    projected = isinstance(attention.pattern, Linformer)
    if isinstance(attention.pattern, Linformer):  # weights are over projected keys, and values only need the shape
        values = cache.keys.new_zeros(keys, attention.pattern.key_projection.shape[0])
    else:
        values = torch.eye(keys, dtype=query.dtype, device=query.device)

    def attend(query: MappedQueries, key: MappedKeys, value: Values, visible: VisibleKeys) -> AttentionOutput:
        """Return weights over the unit vectors in the values, or over projected keys."""
        weights = function(query, key, visible)
        return weights if projected else weights @ repeat_kv_heads(value, weights.shape[1])

    return attention.pattern(attend, query, cache.keys, values.expand(rows, heads, keys, -1), mask)


def _mask_as_weights(query: MappedQueries, key: MappedKeys, visible: VisibleKeys) -> Logits:
    """Return 1 for keys that a query may attend to, and 0 for others."""
    mask = visible.dense_mask(query, key)
    shape = (*query.shape[:3], key.shape[2])
    return query.new_ones(shape) if mask is None else mask.expand(shape).to(query.dtype)
