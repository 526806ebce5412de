r"""Rotary positions (Su et al., 2021): queries and keys rotate with their position.

Of a head of size $d$, the numbers $i$ and $i + d/2$ are a point in a plane, rotated by $p \cdot b^{-2i/d}$ at position
$p$, so that the inner product of a query and a key depends only on their distance. The paper pairs neighbors; the
halves are the layout of GPT-NeoX and Llama, equivalent up to a permutation of features.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.nn.cpu_training_ops import CpuRotary, cpu_ops_for

HeadVectors = Float[Tensor, "rows heads positions head_size"]


def apply_rotary(x: HeadVectors, position_ids: Int[Tensor, "#rows positions"], *, base: float) -> HeadVectors:
    """Rotate `x` by its positions."""
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = position_ids[:, None, :, None] * rates
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if core := cpu_ops_for(x):
        return CpuRotary.apply(x, cosine[:, 0], sine[:, 0], core)  # type: ignore[no-untyped-call]
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


@final
class RotaryPositions(nn.Module):
    """`apply_rotary` as a module without parameters."""

    def __init__(self, *, base: float) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: HeadVectors, position_ids: Int[Tensor, "#rows positions"]) -> HeadVectors:
        return apply_rotary(x, position_ids, base=self.base)
