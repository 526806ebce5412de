r"""Multi-head attention (Vaswani et al., 2017, section 3.2.2).

$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)$,
$\mathrm{MultiHead} = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) W^O$. With fewer key-value heads than
query heads, each serves a group of query heads (Ainslie et al., 2023).

Three parts may be chosen: the score compares, relative positions tell distances, and a pattern says which keys a query
may reach. A pattern only arranges the work; all arithmetic is in the `look` that it is handed.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol, final, runtime_checkable

from torch import Tensor, nn

from dragoman.config import Config
from dragoman.nn.functional import (
    AttentionOutput,
    Bias,
    Mask,
    Values,
    add_causal_mask,
    attention_weights,
    fused_attention,
    map_query_chunks,
    reference_attention,
)
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.positions.distance_bias import PositionBias
from dragoman.nn.positions.rotary import RotaryPositions
from dragoman.nn.positions.tree import TreeBias
from dragoman.nn.scores import Logits, MappedKeys, MappedQueries, Score
from dragoman.typing import Bool, Float, Int

PositionIds = Int[Tensor, "#rows positions"]
KeyMask = Bool[Tensor, "#rows 1 #queries keys"]
RelationIds = Int[Tensor, "rows places keys"]
"""How each two places of a text stand to each other in its tree."""
MAX_CHUNK_ELEMENTS = 2**24
"""Numbers that one chunk of the lean road may hold."""


@runtime_checkable
class AttentionFunction(Protocol):
    """Dense attention of some queries to some keys.

    `past_length` keys stand past_length the place of the first query; with `causal`, key $j$ is hidden from query $i$ where
    $j > i + \\mathtt{past_length}$. None says that the keys do not follow one another, which tells no distances.
    """

    def __call__(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
    ) -> AttentionOutput: ...


@runtime_checkable
class AttentionPattern(Protocol):
    """Which keys a query may reach; the queries are the last of the keys, or of another sequence."""

    @property
    def max_length(self) -> int | None:
        """The longest sequence that it knows, or None where there is no end."""
        ...

    def __call__(
        self, look: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput: ...


class FullConfig(Config):
    """Every place may look at every place, or at every one past_length it."""

    kind: Literal["full"] = "full"


@final
class FullAttention:
    """Every key that is mask; with `causal`, none that comes later."""

    max_length: int | None = None

    def __init__(self, *, causal: bool) -> None:
        self.causal = causal

    def __call__(
        self, look: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        past_length = key.shape[2] - query.shape[2]
        return look(query, key, value, mask=mask, causal=self.causal, past_length=past_length)


@final
class MultiHeadAttention(nn.Module):
    """Queries from one sequence, keys and values from another or the same one.

    Projecting keys and values is a call of its own, so that those of a source sentence or of past positions are
    computed once; they are kept as the score maps them and turned to their places.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        bias: bool,
        dropout: float,
        score: Score,
        pattern: AttentionPattern,
        rotary: RotaryPositions | None = None,
        position_bias: PositionBias | None = None,
        tree: TreeBias | None = None,
        kept_heads: tuple[int, ...] | None = None,
    ) -> None:
        """`kept` are the heads that pruning left, out of `heads` that share the `size`: whole groups, where keys are
        shared."""
        super().__init__()
        self.head_size = d_model // num_heads
        self.kept_heads = kept_heads
        left = num_heads if kept_heads is None else len(kept_heads)
        key_value_left = left * num_kv_heads // num_heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, left * self.head_size, bias=bias)
        self.key = nn.Linear(d_model, key_value_left * self.head_size, bias=bias)
        self.value = nn.Linear(d_model, key_value_left * self.head_size, bias=bias)
        self.output = nn.Linear(left * self.head_size, d_model, bias=bias)
        self.score = score
        self.pattern = pattern
        self.rotary = rotary
        self.position_bias = position_bias
        self.tree = tree

    def project_keys_values(
        self, x: Float[Tensor, "rows positions size"], places: PositionIds | None = None
    ) -> KVCache:
        """What others may look at and take; `places` are needed by rotary positions alone."""
        key = self._turned(self._split(self.key(x)), places)
        return KVCache(self.score.keys(key), self._split(self.value(x)))

    def project_queries(
        self, x: Float[Tensor, "rows positions size"], places: PositionIds | None = None
    ) -> MappedQueries:
        """What looks, as the score maps it and turned to its places."""
        return self.score.queries(self._turned(self._split(self.query(x)), places))

    def forward(
        self,
        x: Float[Tensor, "rows queries size"],
        seen: KVCache,
        mask: KeyMask | None,
        places: PositionIds | None = None,
        relations: RelationIds | None = None,
    ) -> Float[Tensor, "rows queries size"]:
        """`relations` are for attention with a `tree`, whose queries are all the places of a text."""
        query = self.project_queries(x, places)
        look = self._look if relations is None else partial(self._look, relations=relations)
        attended = self.pattern(look, query, seen.keys, seen.values, mask)
        return self.output(attended.transpose(1, 2).flatten(2))

    def _look(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
        relations: RelationIds | None = None,
    ) -> AttentionOutput:
        drops = self.training and self.dropout > 0
        adds_values = self.position_bias is not None and self.position_bias.adds_values
        if drops or adds_values or self.score.scale is None:
            return self._look_lean(
                query, key, value, mask=mask, causal=causal, past_length=past_length, relations=relations
            )
        queries, keys = query.shape[2], key.shape[2]
        square = False
        if causal:
            assert past_length is not None
            if mask is None and self.position_bias is None and past_length == 0 and queries == keys:
                square = True  # by a branch, which a compiler of networks follows: kernels take no symbol for it
            else:
                mask = add_causal_mask(mask, queries=queries, keys=keys, past_length=past_length, device=query.device)
        bias = self._bias(query, keys=keys, past_length=past_length, relations=relations)
        return fused_attention(query, key, value, mask=mask, bias=bias, causal=square, scale=self.score.scale)

    def _look_lean(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
        relations: RelationIds | None = None,
    ) -> AttentionOutput:
        """Reference attention, so many queries at a time as the memory is meant for."""

        def road(some: MappedQueries, theirs: Mask | None, bias: Bias | None, start: int | None) -> AttentionOutput:
            return self._reference(some, key, value, mask=theirs, bias=bias, past_length=start)

        return self._by_chunks(road, query, key, mask=mask, causal=causal, past_length=past_length, relations=relations)

    def attention_weights(
        self,
        query: MappedQueries,
        key: MappedKeys,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
        relations: RelationIds | None = None,
    ) -> Logits:
        """The weights of a look, as the reference road has them past_length dropout."""

        def road(some: MappedQueries, theirs: Mask | None, bias: Bias | None, start: int | None) -> Logits:  # noqa: ARG001
            return attention_weights(some, key, mask=theirs, bias=bias, compare=self.score.compare)

        return self._by_chunks(road, query, key, mask=mask, causal=causal, past_length=past_length, relations=relations)

    def _by_chunks(
        self,
        road: Callable[[MappedQueries, Mask | None, Bias | None, int | None], Tensor],
        query: MappedQueries,
        key: MappedKeys,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
        relations: RelationIds | None,
    ) -> Tensor:
        """`road(queries, their mask keys, their bias, the place of the first)`, as many at a time as memory has."""
        keys = key.shape[2]
        held = query.shape[0] * query.shape[1] * max(1, keys) * (1 if self.score.scale is not None else query.shape[3])

        def part(some: MappedQueries, theirs: Mask | None, first: int) -> Tensor:
            start = None if past_length is None else past_length + first
            if causal:
                assert start is not None
                theirs = add_causal_mask(
                    theirs, queries=some.shape[2], keys=keys, past_length=start, device=some.device
                )
            return road(some, theirs, self._bias(some, keys=keys, past_length=start, relations=relations), start)

        return map_query_chunks(part, query, mask, chunk=max(1, MAX_CHUNK_ELEMENTS // held))

    def _reference(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        mask: Mask | None,
        bias: Bias | None,
        past_length: int | None,
    ) -> AttentionOutput:
        of_distances, relative = None, self.position_bias
        if relative is not None and relative.adds_values:
            assert past_length is not None
            of_distances = partial(relative.values, past_length=past_length)
        return reference_attention(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            compare=self.score.compare,
            drop=self.dropout if self.training else 0.0,
            of_distances=of_distances,
        )

    def _bias(
        self, query: MappedQueries, *, keys: int, past_length: int | None, relations: RelationIds | None
    ) -> Bias | None:
        """What positions add to the scores."""
        if self.position_bias is None and relations is None:
            return None
        assert past_length is not None, "this pattern tells no distances; the configuration should have been refused"
        if self.position_bias is not None:
            bias = self.position_bias.bias(query, keys=keys, past_length=past_length)
            of_all_heads = self.kept_heads is not None and bias.shape[1] != query.shape[1]
            return bias[:, list(self.kept_heads or ())] if of_all_heads else bias
        assert self.tree is not None and relations is not None  # noqa: PT018
        return self.tree.bias(query, relations, past_length=past_length)

    def _turned(
        self, x: Float[Tensor, "rows heads positions head_size"], places: PositionIds | None
    ) -> Float[Tensor, "rows heads positions head_size"]:
        if self.rotary is None:
            return x
        assert places is not None, "rotary positions need the places"
        return self.rotary(x, places)

    def _split(self, x: Float[Tensor, "rows positions width"]) -> Float[Tensor, "rows heads positions head_size"]:
        return x.unflatten(2, (-1, self.head_size)).transpose(1, 2)
