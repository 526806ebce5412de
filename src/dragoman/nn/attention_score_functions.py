r"""Interchangeable attention scores: the similarity of a query and a key.

| kind | score of a query $q$ and a key $k$ | source |
|---|---|---|
| `dot` | $q^\top k$ | Luong et al. (2015), section 3.1 |
| `scaled_dot` | $q^\top k / \sqrt{d}$ | Vaswani et al. (2017), eq. 1 |
| `multiplicative` | $q^\top W k$ | Luong et al. (2015), section 3.1 (`general`) |
| `reduced_rank` | $(Uq)^\top (Vk)$ | the same with $W = U^\top V$ of low rank |
| `additive` | $v^\top \tanh(W_1 k + W_2 q)$ | Bahdanau et al. (2015), appendix A.1.2 |
| `cosine` | $\tau \, q^\top k / (\lVert q \rVert \lVert k \rVert)$ | Graves et al. (2014), eq. 6 |

A score works in two steps, so that caches can store mapped keys: `queries` and `keys` map each side, `compare` computes
the scores. If `compare` is a scaled inner product, `scale` is its factor, and fused kernels can compute it. Every head
has its own parameters.
"""

import math
from typing import Annotated, Final, Literal, Protocol, assert_never, final, runtime_checkable

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from dragoman.array_types import Float
from dragoman.config import Config
from dragoman.errors import ConfigError

Queries = Float[Tensor, "rows heads queries query_size"]
Keys = Float[Tensor, "rows key_heads keys key_size"]
MappedQueries = Float[Tensor, "rows heads queries width"]
MappedKeys = Float[Tensor, "rows key_heads keys width"]
Logits = Float[Tensor, "rows heads queries keys"]


class DotConfig(Config):
    """Inner product."""

    kind: Literal["dot"] = "dot"


class ScaledDotConfig(Config):
    """Inner product divided by the square root of the head size."""

    kind: Literal["scaled_dot"] = "scaled_dot"


class MultiplicativeConfig(Config):
    """Bilinear form with a learned matrix."""

    kind: Literal["multiplicative"] = "multiplicative"


class ReducedRankConfig(Config):
    """Bilinear form with a learned matrix of low rank."""

    kind: Literal["reduced_rank"] = "reduced_rank"
    rank: PositiveInt = Field(default=8, description="rank of the matrix")


class AdditiveConfig(Config):
    """Feed-forward network with one hidden layer."""

    kind: Literal["additive"] = "additive"
    hidden_size: PositiveInt | None = Field(
        default=None, description="units of the hidden layer; null: size of the query"
    )


class CosineConfig(Config):
    """Cosine similarity with a learned scale per head."""

    kind: Literal["cosine"] = "cosine"
    scale: PositiveFloat = Field(default=10.0, description="initial scale")


ScoreConfig = Annotated[
    DotConfig | ScaledDotConfig | MultiplicativeConfig | ReducedRankConfig | AdditiveConfig | CosineConfig,
    Field(discriminator="kind"),
]


SAME_SIZE_SCORES: Final = (DotConfig, ScaledDotConfig, CosineConfig)
"""Scores that need queries and keys of one size."""


@runtime_checkable
class Score(Protocol):
    """Attention score: both sides are mapped, then compared."""

    @property
    def scale(self) -> float | None:
        """Factor of the inner product in `compare`, or None if it is no inner product."""
        ...

    def queries(self, query: Queries) -> MappedQueries:
        """Map queries for `compare`."""
        ...

    def keys(self, key: Keys) -> MappedKeys:
        """Map keys for `compare`; memories and caches store the result instead of the key."""
        ...

    def compare(self, query: MappedQueries, key: MappedKeys) -> Logits:
        """Return the scores of mapped queries and keys; groups of query heads share a key head."""
        ...


def repeat_kv_heads(
    key: Float[Tensor, "rows key_heads keys width"], heads: int
) -> Float[Tensor, "rows {heads} keys width"]:
    """Repeat each key head for its group of query heads (Ainslie et al., 2023)."""
    groups = heads // key.shape[1]
    return key if groups == 1 else key.repeat_interleave(groups, dim=1)


def per_head_linear(
    x: Float[Tensor, "rows heads positions size"], W: Float[Tensor, "heads size width"]
) -> Float[Tensor, "rows heads positions width"]:
    """Compute $x W$ with a matrix per head, in one product per head; `@` would compute one per row."""
    return torch.einsum("rhps,hsw->rhpw", x, W)


def inner_product(query: MappedQueries, key: MappedKeys, scale: float) -> Logits:
    """Return `scale` times the inner product of every query and key."""
    return query @ repeat_kv_heads(key, query.shape[1]).transpose(-1, -2) * scale


def dot(query: MappedQueries, key: MappedKeys) -> Logits:
    r"""$q^\top k$."""
    return inner_product(query, key, 1.0)


def scaled_dot(query: MappedQueries, key: MappedKeys) -> Logits:
    r"""$q^\top k / \sqrt{d}$."""
    return inner_product(query, key, 1 / math.sqrt(query.shape[-1]))


def multiplicative(query: Queries, key: Keys, W: Float[Tensor, "heads query_size key_size"]) -> Logits:
    r"""$q^\top W k$."""
    return dot(per_head_linear(query, W), key)


def reduced_rank(
    query: Queries, key: Keys, U: Float[Tensor, "heads query_size rank"], V: Float[Tensor, "key_heads key_size rank"]
) -> Logits:
    r"""$(U^\top q)^\top (V^\top k)$."""
    return dot(per_head_linear(query, U), per_head_linear(key, V))


def additive(query: MappedQueries, key: MappedKeys, v: Float[Tensor, "heads width"]) -> Logits:
    r"""$v^\top \tanh(k + q)$ of mapped sides; stores `width` numbers per pair."""
    hidden = torch.tanh(query[:, :, :, None] + repeat_kv_heads(key, query.shape[1])[:, :, None])
    return (hidden * v[:, None, None]).sum(dim=-1)


def cosine(query: Queries, key: Keys, scale: Float[Tensor, " heads"]) -> Logits:
    r"""$\tau \cos(q, k)$."""
    return dot(F.normalize(query, dim=-1) * scale[:, None, None], F.normalize(key, dim=-1))


class _InnerProductScore(nn.Module):
    """Inner product of the mapped sides, times `scale`; the identity maps both sides by default."""

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale: float | None = scale

    def queries(self, query: Queries) -> MappedQueries:
        return query

    def keys(self, key: Keys) -> MappedKeys:
        return key

    def compare(self, query: MappedQueries, key: MappedKeys) -> Logits:
        assert self.scale is not None
        return inner_product(query, key, self.scale)


@final
class DotScore(_InnerProductScore):
    r"""$c \, q^\top k$ with a constant $c$, `scale`."""


@final
class MultiplicativeScore(_InnerProductScore):
    r"""$q^\top W k$; queries and keys may differ in size."""

    def __init__(self, *, query_size: int, key_size: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(_fan_in(heads, query_size, key_size) / math.sqrt(key_size))

    def queries(self, query: Queries) -> MappedQueries:
        return per_head_linear(query, self.weight)


@final
class ReducedRankScore(_InnerProductScore):
    r"""$(Uq)^\top (Vk)$; queries and keys may differ in size."""

    def __init__(self, *, query_size: int, key_size: int, heads: int, key_heads: int, rank: int) -> None:
        super().__init__()
        self.query_weight = nn.Parameter(_fan_in(heads, query_size, rank) / math.sqrt(rank))
        self.key_weight = nn.Parameter(_fan_in(key_heads, key_size, rank))

    def queries(self, query: Queries) -> MappedQueries:
        return per_head_linear(query, self.query_weight)

    def keys(self, key: Keys) -> MappedKeys:
        return per_head_linear(key, self.key_weight)


@final
class CosineScore(_InnerProductScore):
    r"""$\tau \cos(q, k)$ with a learned $\tau > 0$ per head, stored as its logarithm."""

    def __init__(self, *, heads: int, first_scale: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((heads,), math.log(first_scale)))

    def queries(self, query: Queries) -> MappedQueries:
        return F.normalize(query, dim=-1) * self.log_scale.exp()[:, None, None]

    def keys(self, key: Keys) -> MappedKeys:
        return F.normalize(key, dim=-1)


@final
class AdditiveScore(nn.Module):
    r"""$v^\top \tanh(W_1 k + W_2 q)$; queries and keys may differ in size."""

    LOOKUP_PARAMETERS = ("vector",)
    scale: float | None = None

    def __init__(self, *, query_size: int, key_size: int, heads: int, key_heads: int, hidden_size: int) -> None:
        super().__init__()
        self.query_weight = nn.Parameter(_fan_in(heads, query_size, hidden_size))
        self.key_weight = nn.Parameter(_fan_in(key_heads, key_size, hidden_size))
        self.vector = nn.Parameter(torch.randn(heads, hidden_size) / math.sqrt(hidden_size))

    def queries(self, query: Queries) -> MappedQueries:
        return per_head_linear(query, self.query_weight)

    def keys(self, key: Keys) -> MappedKeys:
        return per_head_linear(key, self.key_weight)

    def compare(self, query: MappedQueries, key: MappedKeys) -> Logits:
        return additive(query, key, self.vector)


def build_score(config: ScoreConfig, *, query_size: int, key_size: int, heads: int, key_heads: int) -> Score:
    """Build a score with new parameters. Raises ConfigError if it requires equal sizes of queries and keys."""
    if isinstance(config, SAME_SIZE_SCORES) and query_size != key_size:
        raise ConfigError(
            f"the score {config.kind} needs queries and keys of one size, but they have {query_size} and {key_size}; "
            "choose multiplicative, reduced_rank or additive, or make the sizes equal"
        )
    sizes = {"query_size": query_size, "key_size": key_size, "heads": heads, "key_heads": key_heads}
    match config:
        case DotConfig():
            return DotScore(scale=1.0)
        case ScaledDotConfig():
            return DotScore(scale=1 / math.sqrt(query_size))
        case MultiplicativeConfig():
            return MultiplicativeScore(query_size=query_size, key_size=key_size, heads=heads)
        case ReducedRankConfig(rank=rank):
            return ReducedRankScore(**sizes, rank=rank)
        case AdditiveConfig(hidden_size=hidden_size):
            return AdditiveScore(**sizes, hidden_size=hidden_size or query_size)
        case CosineConfig(scale=scale):
            return CosineScore(heads=heads, first_scale=scale)
        case _:
            assert_never(config)


def _fan_in(heads: int, rows: int, columns: int) -> Float[Tensor, "heads rows columns"]:
    """Draw weights that preserve the variance of their input."""
    return torch.randn(heads, rows, columns) / math.sqrt(rows)
