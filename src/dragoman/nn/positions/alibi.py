r"""ALiBi: scores fall with the distance, $-m_h |i - j|$ (Press et al., 2022), without parameters.

The slopes $m_h$ are the paper's geometric sequence $2^{-8h/H}$ for $H$ heads, $h$ from 1; where $H$ is no power of two,
we take the same formula, the authors' code interleaves two sequences. Where both sides are seen, both fall alike.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.nn.masks import distances
from dragoman.nn.positions.distance_bias import Weights
from dragoman.nn.scores import MappedQueries
from dragoman.typing import Float


def slopes(heads: int, *, device: torch.device | None = None) -> Float[Tensor, " {heads}"]:
    r"""$m_h = 2^{-8h/H}$ for each head."""
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)


@final
class Alibi(nn.Module):
    """Linear biases as a module without parameters."""

    adds_values = False

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def bias(self, query: MappedQueries, *, keys: int, before: int) -> Float[Tensor, "1 all_heads queries {keys}"]:
        away = distances(query.shape[2], keys, before=before, device=query.device).abs()
        return -(slopes(self.heads, device=query.device)[:, None, None] * away)[None].to(query.dtype)

    def values(self, weights: Weights, *, before: int) -> Float[Tensor, "rows heads queries value_size"]:
        raise NotImplementedError("linear biases have no vectors of values")
