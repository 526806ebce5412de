r"""The weights of one attention, computed beside it from its own inputs.

The fast roads never hold the weights, and patterns fold rows, cut blocks and gather keys. So the keys are given other
values than their own: each key's value is its name, the vector that is 1 at its place and 0 elsewhere. What attention
then returns, $\sum_j a_{ij} \, \mathbf{1}_j = a_i$, are the weights, at the places of the whole sequence whatever the
pattern. All arithmetic is that of the reference road.
"""

from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from dragoman.nn.attention import AttentionFunction, KeyMask, MultiHeadAttention, PositionIds, RelationIds
from dragoman.nn.functional import AttentionOutput, Mask, Values, add_causal_mask
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.scores import Logits, MappedKeys, MappedQueries, repeat_kv_heads
from dragoman.nn.sparse import Linformer
from dragoman.typing import Bool, Float

Weights = Float[Tensor, "rows heads queries looked_at"]
Visible = Bool[Tensor, "rows heads queries looked_at"]
Inputs = Float[Tensor, "rows queries size"]


@runtime_checkable
class Weigh(Protocol):
    """What one dense look of a pattern comes to, before it meets the values."""

    def __call__(
        self, query: MappedQueries, key: MappedKeys, *, mask: Mask | None, causal: bool, past_length: int | None
    ) -> Logits: ...


def attention_weights(
    attention: MultiHeadAttention,
    x: Inputs,
    seen: KVCache,
    mask: KeyMask | None,
    places: PositionIds | None = None,
    relations: RelationIds | None = None,
) -> Weights:
    """The weights with which `attention` looks when it is called with these inputs, before dropout.

    Each row of weights sums to one over what its query may see and is zero elsewhere; a query that may see nothing has
    zeros alone. Where the pattern is Linformer's, the keys are its mixtures of places.
    """
    weigh = (
        attention.attention_weights if relations is None else partial(attention.attention_weights, relations=relations)
    )
    return _through_pattern(attention, attention.project_queries(x, places), seen, mask, weigh)


def attention_mask(
    attention: MultiHeadAttention,
    x: Inputs,
    seen: KVCache,
    mask: KeyMask | None,
    places: PositionIds | None = None,
    relations: RelationIds | None = None,  # noqa: ARG001  # who stands how to whom changes no mask
) -> Visible:
    """What each query may see of each key: the pattern, the future and the padding in one."""
    return _through_pattern(attention, attention.project_queries(x, places), seen, mask, _visible) > 0


def looks_at_mixtures(attention: MultiHeadAttention) -> bool:
    """Whether the keys are mixtures of places, which have no place of their own."""
    return isinstance(attention.pattern, Linformer)


def _through_pattern(
    attention: MultiHeadAttention, query: MappedQueries, seen: KVCache, mask: KeyMask | None, weigh: Weigh
) -> Weights:
    rows, heads, places, _ = seen.keys.shape
    mixtures = looks_at_mixtures(attention)
    names = _nothing(attention, seen) if mixtures else torch.eye(places, dtype=query.dtype, device=query.device)
    values = names.expand(rows, heads, places, -1)
    return attention.pattern(_namer(weigh, as_they_are=mixtures), query, seen.keys, values, mask)


def _namer(weigh: Weigh, *, as_they_are: bool) -> AttentionFunction:
    """A look whose outcome are weights: at the places that the values name, or over its own keys."""

    def look(
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
    ) -> AttentionOutput:
        weights = weigh(query, key, mask=mask, causal=causal, past_length=past_length)
        return weights if as_they_are else weights @ repeat_kv_heads(value, weights.shape[1])

    return look


def _nothing(attention: MultiHeadAttention, seen: KVCache) -> Float[Tensor, "places mixtures"]:
    """Values of the shape that mixtures have when they are looked at as they are."""
    assert isinstance(attention.pattern, Linformer)
    return seen.keys.new_zeros(seen.length, attention.pattern.key_projection.shape[0])


def _visible(
    query: MappedQueries, key: MappedKeys, *, mask: Mask | None, causal: bool, past_length: int | None
) -> Logits:
    """1 where a query may see a key, else 0."""
    rows, heads, queries, _ = query.shape
    keys = key.shape[2]
    if causal:
        assert past_length is not None
        mask = add_causal_mask(mask, queries=queries, keys=keys, past_length=past_length, device=query.device)
    if mask is None:
        return query.new_ones(rows, heads, queries, keys)
    return mask.expand(rows, heads, queries, keys).to(query.dtype)
