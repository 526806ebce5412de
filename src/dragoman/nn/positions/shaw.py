r"""Relative positions of Shaw et al. (2018), eqs. 3 to 5, shared by the heads of a layer.

$e_{ij} = x_i W^Q (x_j W^K + a^K_{ij})^\top / \sqrt{d}$ and $z_i = \sum_j \alpha_{ij} (x_j W^V + a^V_{ij})$, with one
learned vector per distance $j - i$ clipped to $[-k, k]$. The scores add
$q_i^\top a^K_{ij}$ to those without positions, so no vector is stored per pair of positions.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.nn.attention_score_functions import Logits, MappedQueries
from dragoman.nn.masks import distances


def clipped_distances(
    queries: int, keys: int, *, past_length: int, max_distance: int, device: torch.device
) -> Int[Tensor, "{queries} {keys}"]:
    r"""Row of the embedding for each pair: $\mathrm{clip}(j - i, -k, k) + k$."""
    away = distances(queries, keys, past_length=past_length, device=device)
    return away.clamp(-max_distance, max_distance) + max_distance


@final
class ShawPositions(nn.Module):
    """Distance embeddings for the keys and, with `adds_values`, for the values."""

    LOOKUP_PARAMETERS = ("key_embedding", "value_embedding")

    def __init__(self, *, max_distance: int, head_size: int, scale: float, adds_values: bool) -> None:
        """Initialize; `scale` is the scale of the attention score."""
        super().__init__()
        self.max_distance = max_distance
        self.scale = scale
        self.key_embedding = nn.Parameter(torch.randn(2 * max_distance + 1, head_size) * head_size**-0.5)
        self.value_embedding = (
            nn.Parameter(torch.randn(2 * max_distance + 1, head_size) * head_size**-0.5) if adds_values else None
        )

    def bias(self, query: MappedQueries, *, keys: int, past_length: int) -> Float[Tensor, "rows heads queries {keys}"]:
        scores = query @ self.key_embedding.t() * self.scale
        rows = clipped_distances(
            query.shape[2], keys, past_length=past_length, max_distance=self.max_distance, device=query.device
        )
        return scores.gather(-1, rows.expand(*scores.shape[:2], -1, -1))

    def values(self, weights: Logits, *, past_length: int) -> Float[Tensor, "rows heads queries value_size"]:
        assert self.value_embedding is not None
        rows = clipped_distances(
            *weights.shape[2:], past_length=past_length, max_distance=self.max_distance, device=weights.device
        )
        sums = weights.new_zeros(*weights.shape[:3], 2 * self.max_distance + 1)
        return sums.scatter_add(-1, rows.expand_as(weights), weights) @ self.value_embedding
