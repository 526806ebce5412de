r"""ALiBi: scores fall with the distance, $-m_h |i - j|$ (Press et al., 2022), without parameters.

The slopes $m_h$ are the paper's geometric sequence $2^{-8h/H}$ for $H$ heads, $h$ from 1; if $H$ is not a power
of two, the same formula applies, while the authors' code interleaves two sequences. Bidirectional attention is
symmetric.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float
from dragoman.nn.attention_score_functions import MappedQueries
from dragoman.nn.masks import distances


def alibi_slopes(heads: int, *, device: torch.device | None = None) -> Float[Tensor, " {heads}"]:
    r"""$m_h = 2^{-8h/H}$ for each head."""
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)


@final
class AlibiBias(nn.Module):
    """ALiBi as a module without parameters."""

    def __init__(self, *, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def bias(self, query: MappedQueries, *, keys: int, past_length: int) -> Float[Tensor, "1 all_heads queries {keys}"]:
        away = distances(query.shape[2], keys, past_length=past_length, device=query.device).abs()
        return -(alibi_slopes(self.num_heads, device=query.device)[:, None, None] * away)[None].to(query.dtype)
