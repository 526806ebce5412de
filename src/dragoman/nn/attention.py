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
    Allowed,
    Attended,
    Bias,
    Values,
    attend,
    attend_fused,
    in_chunks,
    narrowed,
    weights_of,
)
from dragoman.nn.kv_cache import KeysValues
from dragoman.nn.positions.distance_bias import DistanceBias
from dragoman.nn.positions.rotary import Rotary
from dragoman.nn.positions.tree import TreeRelations
from dragoman.nn.scores import Logits, MappedKeys, MappedQueries, Score
from dragoman.typing import Bool, Float, Int

Places = Int[Tensor, "#rows positions"]
Reachable = Bool[Tensor, "#rows 1 #queries keys"]
Relations = Int[Tensor, "rows places keys"]
"""How each two places of a text stand to each other in its tree."""
CHUNK = 2**24
"""Numbers that one chunk of the lean road may hold."""


@runtime_checkable
class Look(Protocol):
    """Dense attention of some queries to some keys.

    `before` keys stand before the place of the first query; with `causal`, key $j$ is hidden from query $i$ where
    $j > i + \\mathtt{before}$. None says that the keys do not follow one another, which tells no distances.
    """

    def __call__(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        allowed: Allowed | None,
        causal: bool,
        before: int | None,
    ) -> Attended: ...


@runtime_checkable
class Pattern(Protocol):
    """Which keys a query may reach; the queries are the last of the keys, or of another sequence."""

    @property
    def maximum_length(self) -> int | None:
        """The longest sequence that it knows, or None where there is no end."""
        ...

    def __call__(
        self, look: Look, query: MappedQueries, key: MappedKeys, value: Values, allowed: Reachable | None
    ) -> Attended: ...


class FullConfig(Config):
    """Every place may look at every place, or at every one before it."""

    kind: Literal["full"] = "full"


@final
class Full:
    """Every key that is allowed; with `causal`, none that comes later."""

    maximum_length: int | None = None

    def __init__(self, *, causal: bool) -> None:
        self.causal = causal

    def __call__(
        self, look: Look, query: MappedQueries, key: MappedKeys, value: Values, allowed: Reachable | None
    ) -> Attended:
        before = key.shape[2] - query.shape[2]
        return look(query, key, value, allowed=allowed, causal=self.causal, before=before)


@final
class MultiHeadAttention(nn.Module):
    """Queries from one sequence, keys and values from another or the same one.

    Projecting keys and values is a call of its own, so that those of a source sentence or of past positions are
    computed once; they are kept as the score maps them and turned to their places.
    """

    def __init__(
        self,
        *,
        size: int,
        heads: int,
        key_value_heads: int,
        bias: bool,
        dropout: float,
        score: Score,
        pattern: Pattern,
        rotary: Rotary | None = None,
        distances: DistanceBias | None = None,
        tree: TreeRelations | None = None,
        kept: tuple[int, ...] | None = None,
    ) -> None:
        """`kept` are the heads that pruning left, out of `heads` that share the `size`: whole groups, where keys are
        shared."""
        super().__init__()
        self.head_size = size // heads
        self.kept = kept
        left = heads if kept is None else len(kept)
        key_value_left = left * key_value_heads // heads
        self.dropout = dropout
        self.query = nn.Linear(size, left * self.head_size, bias=bias)
        self.key = nn.Linear(size, key_value_left * self.head_size, bias=bias)
        self.value = nn.Linear(size, key_value_left * self.head_size, bias=bias)
        self.output = nn.Linear(left * self.head_size, size, bias=bias)
        self.score = score
        self.pattern = pattern
        self.rotary = rotary
        self.distances = distances
        self.tree = tree

    def keys_values(self, x: Float[Tensor, "rows positions size"], places: Places | None = None) -> KeysValues:
        """What others may look at and take; `places` are needed by rotary positions alone."""
        key = self._turned(self._split(self.key(x)), places)
        return KeysValues(self.score.keys(key), self._split(self.value(x)))

    def queries(self, x: Float[Tensor, "rows positions size"], places: Places | None = None) -> MappedQueries:
        """What looks, as the score maps it and turned to its places."""
        return self.score.queries(self._turned(self._split(self.query(x)), places))

    def forward(
        self,
        x: Float[Tensor, "rows queries size"],
        seen: KeysValues,
        allowed: Reachable | None,
        places: Places | None = None,
        relations: Relations | None = None,
    ) -> Float[Tensor, "rows queries size"]:
        """`relations` are for attention with a `tree`, whose queries are all the places of a text."""
        query = self.queries(x, places)
        look = self._look if relations is None else partial(self._look, relations=relations)
        attended = self.pattern(look, query, seen.keys, seen.values, allowed)
        return self.output(attended.transpose(1, 2).flatten(2))

    def _look(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        allowed: Allowed | None,
        causal: bool,
        before: int | None,
        relations: Relations | None = None,
    ) -> Attended:
        drops = self.training and self.dropout > 0
        adds_values = self.distances is not None and self.distances.adds_values
        if drops or adds_values or self.score.scale is None:
            return self._look_lean(
                query, key, value, allowed=allowed, causal=causal, before=before, relations=relations
            )
        queries, keys = query.shape[2], key.shape[2]
        square = False
        if causal:
            assert before is not None
            if allowed is None and self.distances is None and before == 0 and queries == keys:
                square = True  # by a branch, which a compiler of networks follows: kernels take no symbol for it
            else:
                allowed = narrowed(allowed, queries=queries, keys=keys, before=before, device=query.device)
        bias = self._bias(query, keys=keys, before=before, relations=relations)
        return attend_fused(query, key, value, allowed=allowed, bias=bias, causal=square, scale=self.score.scale)

    def _look_lean(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        allowed: Allowed | None,
        causal: bool,
        before: int | None,
        relations: Relations | None = None,
    ) -> Attended:
        """Reference attention, so many queries at a time as the memory is meant for."""

        def road(some: MappedQueries, theirs: Allowed | None, bias: Bias | None, start: int | None) -> Attended:
            return self._reference(some, key, value, allowed=theirs, bias=bias, before=start)

        return self._by_chunks(road, query, key, allowed=allowed, causal=causal, before=before, relations=relations)

    def weigh(
        self,
        query: MappedQueries,
        key: MappedKeys,
        *,
        allowed: Allowed | None,
        causal: bool,
        before: int | None,
        relations: Relations | None = None,
    ) -> Logits:
        """The weights of a look, as the reference road has them before dropout."""

        def road(some: MappedQueries, theirs: Allowed | None, bias: Bias | None, start: int | None) -> Logits:  # noqa: ARG001
            return weights_of(some, key, allowed=theirs, bias=bias, compare=self.score.compare)

        return self._by_chunks(road, query, key, allowed=allowed, causal=causal, before=before, relations=relations)

    def _by_chunks(
        self,
        road: Callable[[MappedQueries, Allowed | None, Bias | None, int | None], Tensor],
        query: MappedQueries,
        key: MappedKeys,
        *,
        allowed: Allowed | None,
        causal: bool,
        before: int | None,
        relations: Relations | None,
    ) -> Tensor:
        """`road(queries, their allowed keys, their bias, the place of the first)`, as many at a time as memory has."""
        keys = key.shape[2]
        held = query.shape[0] * query.shape[1] * max(1, keys) * (1 if self.score.scale is not None else query.shape[3])

        def part(some: MappedQueries, theirs: Allowed | None, first: int) -> Tensor:
            start = None if before is None else before + first
            if causal:
                assert start is not None
                theirs = narrowed(theirs, queries=some.shape[2], keys=keys, before=start, device=some.device)
            return road(some, theirs, self._bias(some, keys=keys, before=start, relations=relations), start)

        return in_chunks(part, query, allowed, chunk=max(1, CHUNK // held))

    def _reference(
        self,
        query: MappedQueries,
        key: MappedKeys,
        value: Values,
        *,
        allowed: Allowed | None,
        bias: Bias | None,
        before: int | None,
    ) -> Attended:
        of_distances, relative = None, self.distances
        if relative is not None and relative.adds_values:
            assert before is not None
            of_distances = partial(relative.values, before=before)
        return attend(
            query,
            key,
            value,
            allowed=allowed,
            bias=bias,
            compare=self.score.compare,
            drop=self.dropout if self.training else 0.0,
            of_distances=of_distances,
        )

    def _bias(self, query: MappedQueries, *, keys: int, before: int | None, relations: Relations | None) -> Bias | None:
        """What positions add to the scores."""
        if self.distances is None and relations is None:
            return None
        assert before is not None, "this pattern tells no distances; the configuration should have been refused"
        if self.distances is not None:
            bias = self.distances.bias(query, keys=keys, before=before)
            of_all_heads = self.kept is not None and bias.shape[1] != query.shape[1]
            return bias[:, list(self.kept or ())] if of_all_heads else bias
        assert self.tree is not None and relations is not None  # noqa: PT018
        return self.tree.bias(query, relations, before=before)

    def _turned(
        self, x: Float[Tensor, "rows heads positions head_size"], places: Places | None
    ) -> Float[Tensor, "rows heads positions head_size"]:
        if self.rotary is None:
            return x
        assert places is not None, "rotary positions need the places"
        return self.rotary(x, places)

    def _split(self, x: Float[Tensor, "rows positions width"]) -> Float[Tensor, "rows heads positions head_size"]:
        return x.unflatten(2, (-1, self.head_size)).transpose(1, 2)
