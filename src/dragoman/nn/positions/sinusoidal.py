r"""Sinusoidal positions: sines and cosines of $p \cdot 10000^{-i/T}$ (Vaswani et al., 2017, section 3.5).

A vector of size $d$ has $T = d/2$ rates. Programs differ in three ways. The paper interleaves sines and cosines, and
Tensor2Tensor, Marian and fairseq write all sines, then all cosines. With inclusive rates, $10000^{-i/(T-1)}$, the last
rate is $1/10000$ (Tensor2Tensor, Marian, fairseq). fairseq numbers the first position 2.
"""

from typing import Literal, final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int

SinusoidOrder = Literal["interleaved", "halves"]


def sinusoidal_positions(
    positions: Int[Tensor, "*positions"], size: int, *, order: SinusoidOrder = "interleaved", inclusive: bool = False
) -> Float[Tensor, "*positions {size}"]:
    """Sinusoidal encoding of each position."""
    index = torch.arange(0, size, 2, device=positions.device, dtype=torch.float32)
    rates = 10000.0 ** (-index / (max(1, len(index) - 1) * 2 if inclusive else size))
    angles = positions[..., None] * rates
    if order == "halves":
        return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :size]
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :size]


@final
class SinusoidalPositions(nn.Module):
    """Sinusoidal positions as a module without parameters; the first position has the number `offset`."""

    max_length = None

    def __init__(
        self, *, size: int, order: SinusoidOrder = "interleaved", inclusive: bool = False, offset: int = 0
    ) -> None:
        super().__init__()
        self.size = size
        self.order: SinusoidOrder = order
        self.inclusive = inclusive
        self.offset = offset

    def forward(self, positions: Int[Tensor, "*positions"]) -> Float[Tensor, "*positions {self.size}"]:
        return sinusoidal_positions(positions + self.offset, self.size, order=self.order, inclusive=self.inclusive)
