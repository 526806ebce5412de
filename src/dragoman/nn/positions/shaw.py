r"""Relative positions of Shaw et al. (2018), eqs. 3 to 5, shared by the heads of a layer.

$e_{ij} = x_i W^Q (x_j W^K + a^K_{ij})^\top / \sqrt{d}$ and $z_i = \sum_j \alpha_{ij} (x_j W^V + a^V_{ij})$, with one
learnt vector for each distance $j - i$ clipped to $[-k, k]$. The first is computed as the score without positions plus
$q_i^\top a^K_{ij}$, so no vector is ever held for a pair of places.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.nn.masks import distances
from dragoman.nn.positions.distance_bias import Weights
from dragoman.nn.scores import MappedQueries
from dragoman.typing import Float, Int


def clipped(
    queries: int, keys: int, *, before: int, reach: int, device: torch.device
) -> Int[Tensor, "{queries} {keys}"]:
    r"""The row of the table for each pair: $\mathrm{clip}(j - i, -k, k) + k$."""
    return distances(queries, keys, before=before, device=device).clamp(-reach, reach) + reach


@final
class RelativePositions(nn.Module):
    """A vector a distance for the keys and, unless left out, one for the values."""

    TABLES = ("of_keys", "of_values")

    def __init__(self, *, reach: int, head_size: int, scale: float, adds_values: bool) -> None:
        """`scale` is that of the score which they join."""
        super().__init__()
        self.reach = reach
        self.scale = scale
        self.adds_values = adds_values
        self.of_keys = nn.Parameter(torch.randn(2 * reach + 1, head_size) * head_size**-0.5)
        self.of_values = nn.Parameter(torch.randn(2 * reach + 1, head_size) * head_size**-0.5) if adds_values else None

    def bias(self, query: MappedQueries, *, keys: int, before: int) -> Float[Tensor, "rows heads queries {keys}"]:
        scores = query @ self.of_keys.t() * self.scale
        rows = clipped(query.shape[2], keys, before=before, reach=self.reach, device=query.device)
        return scores.gather(-1, rows.expand(*scores.shape[:2], -1, -1))

    def values(self, weights: Weights, *, before: int) -> Float[Tensor, "rows heads queries value_size"]:
        assert self.of_values is not None
        rows = clipped(*weights.shape[2:], before=before, reach=self.reach, device=weights.device)
        sums = weights.new_zeros(*weights.shape[:3], 2 * self.reach + 1)
        return sums.scatter_add(-1, rows.expand_as(weights), weights) @ self.of_values
