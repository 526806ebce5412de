r"""T5 relative position bias: a learned number per head and bucket of distances, shared by all layers (Raffel et al.,
2020, section 2.1).

Half of the buckets hold one distance each. The others grow logarithmically up to `max_distance`; larger distances share
the last bucket. With a causal mask, all buckets are for the past; otherwise each side has half of them.
"""

import math
from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.nn.attention_score_functions import MappedQueries
from dragoman.nn.masks import distances


def relative_position_bucket(
    distance: Int[Tensor, "*pairs"], *, num_buckets: int, max_distance: int, causal: bool
) -> Int[Tensor, "*pairs"]:
    r"""Return the bucket of each distance $j - i$, from 0 to `num_buckets` - 1."""
    if causal:
        side, away = torch.zeros_like(distance), (-distance).clamp(min=0)
    else:
        num_buckets //= 2
        side, away = (distance > 0) * num_buckets, distance.abs()
    exact = num_buckets // 2
    ratio = (away.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    far = (exact + (ratio * (num_buckets - exact)).long()).clamp(max=num_buckets - 1)
    return side + torch.where(away < exact, away, far)


@final
class T5Bias(nn.Module):
    """T5 bias shared by all layers of an encoder or decoder."""

    LOOKUP_PARAMETERS = ("table",)

    def __init__(self, *, num_buckets: int, max_distance: int, num_heads: int, causal: bool) -> None:
        super().__init__()
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.causal = causal
        self.table = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def bias(self, query: MappedQueries, *, keys: int, past_length: int) -> Float[Tensor, "1 all_heads queries {keys}"]:
        away = distances(query.shape[2], keys, past_length=past_length, device=query.device)
        rows = relative_position_bucket(
            away, num_buckets=self.num_buckets, max_distance=self.max_distance, causal=self.causal
        )
        return self.table[rows].permute(2, 0, 1)[None]
