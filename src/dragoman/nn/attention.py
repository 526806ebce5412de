r"""Multi-head attention (Vaswani et al., 2017, section 3.2.2).

$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)$,
$\mathrm{MultiHead} = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) W^O$. With fewer key-value heads than
query heads, each serves a group of query heads (Ainslie et al., 2023).

Three parts are interchangeable: the score compares queries and keys, relative positions encode distances, and a pattern
chooses the keys that a query may attend to. A pattern only rearranges blocks; the given `AttentionFunction` computes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, final, runtime_checkable

from torch import Tensor, nn

from dragoman.array_types import Bool, Float, Int
from dragoman.config import Config
from dragoman.nn.attention_functions import (
    AttentionOutput,
    Bias,
    Values,
    VisibleKeys,
    attention_weights,
    fused_attention,
    map_query_chunks,
    queries_per_chunk,
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
AttentionFunction = Callable[[MappedQueries, MappedKeys, Values, VisibleKeys], AttentionOutput]
"""Dense attention of queries to the visible keys."""


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
        return attend(query, key, value, VisibleKeys(mask, self.causal, past_length=key.shape[2] - query.shape[2]))


@dataclass(frozen=True)
class Heads:
    """Heads of an attention; `kept` are the heads left by pruning, in whole groups if they share keys."""

    total: int
    """Number of query heads before pruning."""
    group: int = 1
    """Number of query heads that share a key-value head."""
    kept: tuple[int, ...] | None = None
    size: int | None = None
    """Number of features of a head; None: `d_model / total`."""

    @property
    def queries(self) -> int:
        """Number of query heads left."""
        return self.total if self.kept is None else len(self.kept)

    @property
    def keys(self) -> int:
        """Number of key-value heads left."""
        return self.queries // self.group


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
        heads: Heads,
        bias: bool,
        qkv_bias: bool | None = None,
        dropout: float,
        score: Score,
        pattern: AttentionPattern,
        positions: RotaryPositions | PositionBias | TreeBias | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.head_size = d_model // heads.total if heads.size is None else heads.size
        qkv_bias = bias if qkv_bias is None else qkv_bias
        self.dropout = dropout
        self.query = nn.Linear(d_model, heads.queries * self.head_size, bias=qkv_bias)
        self.key = nn.Linear(d_model, heads.keys * self.head_size, bias=qkv_bias)
        self.value = nn.Linear(d_model, heads.keys * self.head_size, bias=qkv_bias)
        self.output = nn.Linear(heads.queries * self.head_size, d_model, bias=bias)
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
        visible: VisibleKeys,
        relations: RelationIds | None = None,
    ) -> AttentionOutput:
        """Attend by fused kernels if score, positions and dropout allow; an `AttentionFunction`."""
        if (self.training and self.dropout > 0) or self.value_positions is not None or self.score.scale is None:
            return self.attend_in_chunks(query, key, value, visible, relations)
        bias = self._bias(query, key, visible, relations)
        plain = visible.mask is None and self.position_bias is None
        if visible.causal and plain and visible.past_length == 0 and query.shape[2] == key.shape[2]:
            return fused_attention(query, key, value, bias=bias, causal=True, scale=self.score.scale)
        mask = visible.dense_mask(query, key)
        return fused_attention(query, key, value, mask=mask, bias=bias, scale=self.score.scale)

    def attend_in_chunks(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        visible: VisibleKeys,
        relations: RelationIds | None = None,
    ) -> AttentionOutput:
        """Attend by `reference_attention` in chunks of queries; an `AttentionFunction`."""
        positions = self.value_positions

        def compute(chunk: MappedQueries, seen: VisibleKeys) -> AttentionOutput:
            relative_values = None
            if positions is not None:
                assert seen.past_length is not None
                relative_values = partial(positions.values, past_length=seen.past_length)
            return reference_attention(
                chunk,
                key,
                value,
                mask=seen.dense_mask(chunk, key),
                bias=self._bias(chunk, key, seen, relations),
                compare=self.score.compare,
                dropout_p=self.dropout if self.training else 0.0,
                relative_values=relative_values,
            )

        return map_query_chunks(compute, query, visible, chunk=self._chunk_size(query, key))

    def attention_weights(
        self, query: MappedQueries, key: MappedKeys, visible: VisibleKeys, relations: RelationIds | None = None
    ) -> Logits:
        """Return the attention weights before dropout."""

        def compute(chunk: MappedQueries, seen: VisibleKeys) -> Logits:
            mask, bias = seen.dense_mask(chunk, key), self._bias(chunk, key, seen, relations)
            return attention_weights(chunk, key, mask=mask, bias=bias, compare=self.score.compare)

        return map_query_chunks(compute, query, visible, chunk=self._chunk_size(query, key))

    def _chunk_size(self, query: MappedQueries, key: MappedKeys) -> int:
        return queries_per_chunk(query, key, stores_width=self.score.scale is None)

    def _bias(
        self, query: MappedQueries, key: MappedKeys, visible: VisibleKeys, relations: RelationIds | None
    ) -> Bias | None:
        """Return the position bias of the scores, or None."""
        past_length = visible.past_length
        if self.position_bias is None and relations is None:
            return None
        assert past_length is not None, "this pattern defines no distances; validation should have rejected it"
        if self.position_bias is not None:
            bias = self.position_bias.bias(query, keys=key.shape[2], past_length=past_length)
            all_heads = self.heads.kept is not None and bias.shape[1] != query.shape[1]
            return bias[:, list(self.heads.kept or ())] if all_heads else bias
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
