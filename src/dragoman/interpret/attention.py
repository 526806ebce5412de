r"""Attention weights and masks of one attention module, computed from its inputs.

Fused kernels never materialize the weights, and sparse patterns fold rows, cut blocks and gather keys. We therefore
replace the value of key $j$ by the unit vector $\mathbf{1}_j$. The output of attention,
$\sum_j a_{ij} \, \mathbf{1}_j = a_i$, is then the row of weights over the whole sequence, for any pattern. The
arithmetic is that of the reference implementation.
"""

from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from dragoman.nn.attention import AttentionFunction, KeyMask, MultiHeadAttention, PositionIds, RelationIds
from dragoman.nn.functional import AttentionOutput, Mask, Values, add_causal_mask
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.scores import Logits, MappedKeys, MappedQueries, repeat_kv_heads
from dragoman.nn.sparse.linformer import Linformer
from dragoman.typing import Bool, Float

AttentionWeights = Float[Tensor, "rows heads queries attended"]
AttentionMask = Bool[Tensor, "rows heads queries attended"]
Inputs = Float[Tensor, "rows queries size"]


@runtime_checkable
class WeightFunction(Protocol):
    """Weights of one dense attention inside a pattern."""

    def __call__(
        self, query: MappedQueries, key: MappedKeys, *, mask: Mask | None, causal: bool, past_length: int | None
    ) -> Logits: ...


def attention_weights(
    attention: MultiHeadAttention,
    x: Inputs,
    cache: KVCache,
    mask: KeyMask | None,
    positions: PositionIds | None = None,
    relations: RelationIds | None = None,
) -> AttentionWeights:
    """Return the weights before dropout of an attention module called with these inputs.

    Each row sums to one over the keys that its query may attend to, and is zero elsewhere. A query that may attend to
    nothing has zero weights. The keys of Linformer are its projected positions.
    """
    function = attention.attention_weights
    if relations is not None:
        function = partial(function, relations=relations)
    return _apply_pattern(attention, attention.project_queries(x, positions), cache, mask, function)


def attention_mask(
    attention: MultiHeadAttention,
    x: Inputs,
    cache: KVCache,
    mask: KeyMask | None,
    positions: PositionIds | None = None,
    relations: RelationIds | None = None,  # noqa: ARG001  # relations change no mask
) -> AttentionMask:
    """Return the keys that each query may attend to: pattern, causality and padding combined."""
    return _apply_pattern(attention, attention.project_queries(x, positions), cache, mask, _mask_as_weights) > 0


def has_projected_keys(attention: MultiHeadAttention) -> bool:
    """Return whether the keys are linear combinations of positions, as in Linformer."""
    return isinstance(attention.pattern, Linformer)


def _apply_pattern(
    attention: MultiHeadAttention,
    query: MappedQueries,
    cache: KVCache,
    mask: KeyMask | None,
    function: WeightFunction,
) -> AttentionWeights:
    rows, heads, keys, _ = cache.keys.shape
    if isinstance(attention.pattern, Linformer):  # weights are over projected keys, and values only need the shape
        values = cache.keys.new_zeros(keys, attention.pattern.key_projection.shape[0])
    else:
        values = torch.eye(keys, dtype=query.dtype, device=query.device)
    weigh = _weigh_values(function, projected=has_projected_keys(attention))
    return attention.pattern(weigh, query, cache.keys, values.expand(rows, heads, keys, -1), mask)


def _weigh_values(function: WeightFunction, *, projected: bool) -> AttentionFunction:
    """Return an attention function that returns weights over the unit vectors in the values, or over projected keys."""

    def attend(
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
    ) -> AttentionOutput:
        weights = function(query, key, mask=mask, causal=causal, past_length=past_length)
        return weights if projected else weights @ repeat_kv_heads(value, weights.shape[1])

    return attend


def _mask_as_weights(
    query: MappedQueries, key: MappedKeys, *, mask: Mask | None, causal: bool, past_length: int | None
) -> Logits:
    """Return 1 for keys that a query may attend to, and 0 for others."""
    rows, heads, queries, _ = query.shape
    keys = key.shape[2]
    if causal:
        assert past_length is not None
        mask = add_causal_mask(mask, queries=queries, keys=keys, past_length=past_length, device=query.device)
    if mask is None:
        return query.new_ones(rows, heads, queries, keys)
    return mask.expand(rows, heads, queries, keys).to(query.dtype)
