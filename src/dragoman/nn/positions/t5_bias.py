r"""A learnt number for each head and bucket of distances (Raffel et al., 2020, section 2.1), shared by all layers.

Half of the buckets hold one distance each, the others grow with its logarithm up to `furthest`; what is further shares
the last. Where the past alone is seen, all buckets are for the past; else half are for each side.
"""

import math
from typing import final

import torch
from torch import Tensor, nn

from dragoman.nn.masks import distances
from dragoman.nn.positions.distance_bias import Weights
from dragoman.nn.scores import MappedQueries
from dragoman.typing import Float, Int


def bucket(distance: Int[Tensor, "*pairs"], *, buckets: int, furthest: int, past_only: bool) -> Int[Tensor, "*pairs"]:
    r"""The bucket of each distance $j - i$, from 0 to `buckets` - 1."""
    if past_only:
        side, away = torch.zeros_like(distance), (-distance).clamp(min=0)
    else:
        buckets //= 2
        side, away = (distance > 0) * buckets, distance.abs()
    exact = buckets // 2
    ratio = (away.clamp(min=1).float() / exact).log() / math.log(furthest / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return side + torch.where(away < exact, away, far)


@final
class BucketedPositions(nn.Module):
    """One table for all layers of an encoder or of a decoder."""

    TABLES = ("table",)
    adds_values = False

    def __init__(self, *, buckets: int, furthest: int, heads: int, past_only: bool) -> None:
        super().__init__()
        self.buckets = buckets
        self.furthest = furthest
        self.past_only = past_only
        self.table = nn.Parameter(torch.zeros(buckets, heads))

    def bias(self, query: MappedQueries, *, keys: int, before: int) -> Float[Tensor, "1 all_heads queries {keys}"]:
        away = distances(query.shape[2], keys, before=before, device=query.device)
        rows = bucket(away, buckets=self.buckets, furthest=self.furthest, past_only=self.past_only)
        return self.table[rows].permute(2, 0, 1)[None]

    def values(self, weights: Weights, *, before: int) -> Float[Tensor, "rows heads queries value_size"]:
        raise NotImplementedError("buckets have no vectors of values")
