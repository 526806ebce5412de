r"""$PE(p, 2i) = \sin(p / 10000^{2i/d})$, $PE(p, 2i+1) = \cos(p / 10000^{2i/d})$ (Vaswani et al., 2017, section 3.5)."""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int


def sinusoidal_positions(positions: Int[Tensor, "*positions"], size: int) -> Float[Tensor, "*positions {size}"]:
    """Sinusoidal encoding of each position."""
    rates = 10000.0 ** (-torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size)
    angles = positions[..., None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :size]


@final
class SinusoidalPositions(nn.Module):
    """Sinusoidal positions as a module without parameters."""

    max_length = None

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, positions: Int[Tensor, "*positions"]) -> Float[Tensor, "*positions {self.size}"]:
        return sinusoidal_positions(positions, self.size)
