r"""Multi-head attention (Vaswani et al., 2017, section 3.2.2).

$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)$,
$\mathrm{MultiHead} = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) W^O$. With fewer key-value heads than
query heads, each serves a group of query heads (Ainslie et al., 2023).

Three parts are interchangeable: the score compares queries and keys, relative positions encode distances, and a pattern
chooses the keys that a query may attend to. A pattern only rearranges blocks; the given `AttentionFunction` computes.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol, final, runtime_checkable

from torch import Tensor, nn

from dragoman.array_types import Bool, Float, Int
from dragoman.config import Config
from dragoman.nn.attention_functions import (
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
from dragoman.nn.attention_score_functions import Logits, MappedKeys, MappedQueries, Score
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.positions.rotary import RotaryPositions
from dragoman.nn.positions.shaw import ShawPositions
from dragoman.nn.positions.tree import TreeBias

PositionIds = Int[Tensor, "#rows positions"]
KeyMask = Bool[Tensor, "#rows 1 #queries keys"]
RelationIds = Int[Tensor, "rows positions keys"]
"""Relation of each pair of positions in the dependency tree."""
MAX_CHUNK_ELEMENTS = 2**24
"""Maximum number of elements of one chunk of attention weights."""


@runtime_checkable
class AttentionFunction(Protocol):
    """Dense attention of queries to keys.

    `past_length` keys precede the first query; with `causal`, key $j$ is hidden from query $i$ if
    $j > i + \\mathtt{past\\_length}$. None means that the keys have no order, so that distances are undefined.
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
    """Chooses the keys that a query may attend to; the queries align with the last keys, or another sequence."""

    @property
    def max_length(self) -> int | None:
        """Maximum sequence length, or None if unlimited."""
        ...

    def __call__(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput: ...


@runtime_checkable
class PositionBias(Protocol):
    """Relative positions as a bias on the attention scores."""

    def bias(self, query: MappedQueries, *, keys: int, past_length: int) -> Float[Tensor, "#rows heads queries {keys}"]:
        """Return the bias on the scores of these queries, after `past_length` keys."""
        ...


class FullConfig(Config):
    """Full attention, causal in decoders."""

    kind: Literal["full"] = "full"


@final
class FullAttention:
    """Attention to every key in the mask; with `causal`, to no later one."""

    max_length: int | None = None

    def __init__(self, *, causal: bool) -> None:
        self.causal = causal

    def __call__(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        past_length = key.shape[2] - query.shape[2]
        return attend(query, key, value, mask=mask, causal=self.causal, past_length=past_length)


@final
class MultiHeadAttention(nn.Module):
    """Multi-head attention; queries from one sequence, keys and values from the same or another one.

    A separate call projects keys and values, so that those of the source or of past positions are computed once. The
    cache stores keys after rotation and after the mapping of the score.
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
        positions: RotaryPositions | PositionBias | TreeBias | None = None,
        kept_heads: tuple[int, ...] | None = None,
    ) -> None:
        """Build the projections; `kept_heads` are the heads that pruning kept, in whole groups if they share keys."""
        super().__init__()
        self.head_size = d_model // num_heads
        self.kept_heads = kept_heads
        heads_left = num_heads if kept_heads is None else len(kept_heads)
        kv_heads_left = heads_left * num_kv_heads // num_heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, heads_left * self.head_size, bias=bias)
        self.key = nn.Linear(d_model, kv_heads_left * self.head_size, bias=bias)
        self.value = nn.Linear(d_model, kv_heads_left * self.head_size, bias=bias)
        self.output = nn.Linear(heads_left * self.head_size, d_model, bias=bias)
        self.score = score
        self.pattern = pattern
        self.rotary = positions if isinstance(positions, RotaryPositions) else None
        self.tree = positions if isinstance(positions, TreeBias) else None
        self.position_bias = None if isinstance(positions, RotaryPositions | TreeBias) else positions

    def project_keys_values(
        self, x: Float[Tensor, "rows positions size"], position_ids: PositionIds | None = None
    ) -> KVCache:
        """Project keys and values; only rotary positions need `position_ids`."""
        return KVCache(self.score.keys(self._rotate(self.key(x), position_ids)), self._split(self.value(x)))

    def project_queries(
        self, x: Float[Tensor, "rows positions size"], position_ids: PositionIds | None = None
    ) -> MappedQueries:
        """Project queries, rotate them to their positions and map them for the score."""
        return self.score.queries(self._rotate(self.query(x), position_ids))

    def forward(
        self,
        x: Float[Tensor, "rows queries size"],
        cache: KVCache,
        mask: KeyMask | None,
        position_ids: PositionIds | None = None,
        relations: RelationIds | None = None,
    ) -> Float[Tensor, "rows queries size"]:
        """Attend; `relations` are required with `tree`, whose queries are all positions of a text."""
        query = self.project_queries(x, position_ids)
        attend = self.attend if relations is None else partial(self.attend, relations=relations)
        attended = self.pattern(attend, query, cache.keys, cache.values, mask)
        return self.output(attended.transpose(1, 2).flatten(2))

    def attend(
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
        """Attend by fused kernels if score, positions and dropout allow; implements `AttentionFunction`."""
        if (self.training and self.dropout > 0) or self.value_positions is not None or self.score.scale is None:
            return self.attend_in_chunks(
                query, key, value, mask=mask, causal=causal, past_length=past_length, relations=relations
            )
        queries, keys = query.shape[2], key.shape[2]
        square = False
        if causal:
            assert past_length is not None
            if mask is None and self.position_bias is None and past_length == 0 and queries == keys:
                square = True  # a constant on each branch, as torch.compile requires
            else:
                mask = add_causal_mask(mask, queries=queries, keys=keys, past_length=past_length, device=query.device)
        bias = self._bias(query, keys=keys, past_length=past_length, relations=relations)
        return fused_attention(query, key, value, mask=mask, bias=bias, causal=square, scale=self.score.scale)

    def attend_in_chunks(
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
        """Attend by `reference_attention` in chunks of queries; implements `AttentionFunction`."""
        positions = self.value_positions

        def compute(chunk: MappedQueries, chunk_mask: Mask | None, bias: Bias | None, start: int | None) -> Tensor:
            relative_values = None
            if positions is not None:
                assert start is not None
                relative_values = partial(positions.values, past_length=start)
            return reference_attention(
                chunk,
                key,
                value,
                mask=chunk_mask,
                bias=bias,
                compare=self.score.compare,
                dropout_p=self.dropout if self.training else 0.0,
                relative_values=relative_values,
            )

        return self._map_chunks(
            compute, query, key, mask=mask, causal=causal, past_length=past_length, relations=relations
        )

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
        """Return the attention weights before dropout."""

        def compute(chunk: MappedQueries, chunk_mask: Mask | None, bias: Bias | None, _: int | None) -> Logits:
            return attention_weights(chunk, key, mask=chunk_mask, bias=bias, compare=self.score.compare)

        return self._map_chunks(
            compute, query, key, mask=mask, causal=causal, past_length=past_length, relations=relations
        )

    def _map_chunks(
        self,
        compute: Callable[[MappedQueries, Mask | None, Bias | None, int | None], Tensor],
        query: MappedQueries,
        key: MappedKeys,
        *,
        mask: Mask | None,
        causal: bool,
        past_length: int | None,
        relations: RelationIds | None,
    ) -> Tensor:
        """Concatenate `compute(queries, mask, bias, past_length)` over chunks of queries."""
        keys = key.shape[2]
        held = query.shape[0] * query.shape[1] * max(1, keys) * (1 if self.score.scale is not None else query.shape[3])

        def part(chunk: MappedQueries, chunk_mask: Mask | None, first: int) -> Tensor:
            start = None if past_length is None else past_length + first
            if causal:
                assert start is not None
                chunk_mask = add_causal_mask(
                    chunk_mask, queries=chunk.shape[2], keys=keys, past_length=start, device=chunk.device
                )
            bias = self._bias(chunk, keys=keys, past_length=start, relations=relations)
            return compute(chunk, chunk_mask, bias, start)

        return map_query_chunks(part, query, mask, chunk=max(1, MAX_CHUNK_ELEMENTS // held))

    def _bias(
        self, query: MappedQueries, *, keys: int, past_length: int | None, relations: RelationIds | None
    ) -> Bias | None:
        """Return the position bias of the scores, or None."""
        if self.position_bias is None and relations is None:
            return None
        assert past_length is not None, "this pattern defines no distances; validation should have rejected it"
        if self.position_bias is not None:
            bias = self.position_bias.bias(query, keys=keys, past_length=past_length)
            all_heads = self.kept_heads is not None and bias.shape[1] != query.shape[1]
            return bias[:, list(self.kept_heads or ())] if all_heads else bias
        assert self.tree is not None and relations is not None  # noqa: PT018
        return self.tree.bias(query, relations, past_length=past_length)

    @property
    def value_positions(self) -> ShawPositions | None:
        """Relative positions that also add vectors to the values."""
        relative = self.position_bias
        return relative if isinstance(relative, ShawPositions) and relative.value_embedding is not None else None

    def _split(self, x: Float[Tensor, "rows positions width"]) -> Float[Tensor, "rows heads positions head_size"]:
        return x.unflatten(2, (-1, self.head_size)).transpose(1, 2)

    def _rotate(
        self, x: Float[Tensor, "rows positions width"], position_ids: PositionIds | None
    ) -> Float[Tensor, "rows heads positions head_size"]:
        """Split into heads, and rotate them to their positions if positions are rotary."""
        if self.rotary is None:
            return self._split(x)
        assert position_ids is not None, "rotary positions need position ids"
        return self.rotary(self._split(x), position_ids)
