r"""Rotary positions (Su et al., 2021): queries and keys rotate with their position.

Of a head of size $d$, the numbers $i$ and $i + d/2$ are a point in a plane, rotated by $p \cdot b^{-2i/d}$ at position
$p$, so that the inner product of a query and a key depends only on their distance. The paper pairs neighbors; the
halves are the layout of GPT-NeoX and Llama, equivalent up to a permutation of features.
"""

import math
from typing import Annotated, Literal, Self, final

import torch
from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.config import Config
from dragoman.nn.cpu_training_ops import CpuRotary, cpu_ops_for

HeadVectors = Float[Tensor, "rows heads positions head_size"]


class LinearScalingConfig(Config):
    """Positions divided by a factor (position interpolation; Chen et al., 2023)."""

    kind: Literal["linear"] = "linear"
    factor: PositiveFloat = Field(description="divisor of the positions")


class Llama3ScalingConfig(Config):
    r"""Low frequencies divided by a factor (Llama 3.1; Grattafiori et al., 2024).

    A rate that turns $n$ times over the original length is divided by `factor` where $n$ is below
    `low_frequency_factor`, unchanged where it is above `high_frequency_factor`, and interpolated between them.
    """

    kind: Literal["llama3"] = "llama3"
    factor: PositiveFloat = Field(description="divisor of the low frequencies")
    low_frequency_factor: PositiveFloat = Field(default=1.0, description="turns below which the factor applies fully")
    high_frequency_factor: PositiveFloat = Field(default=4.0, description="turns above which it does not apply")
    original_length: PositiveInt = Field(default=8192, description="context length before the extension")

    @model_validator(mode="after")
    def _check_factors(self) -> Self:
        if self.low_frequency_factor >= self.high_frequency_factor:
            raise ValueError(
                f"model.positions.scaling.low_frequency_factor = {self.low_frequency_factor} is not below "
                f"high_frequency_factor = {self.high_frequency_factor}; choose a lower one"
            )
        return self


RotaryScaling = Annotated[LinearScalingConfig | Llama3ScalingConfig, Field(discriminator="kind")]


def rotation_rates(
    count: int, *, base: float, scaling: RotaryScaling | None = None, device: torch.device | None = None
) -> Float[Tensor, "{count}"]:
    """Return the angle in radians by which each pair of features turns from one position to the next."""
    rates = base ** (-torch.arange(count, device=device, dtype=torch.float32) / count)
    match scaling:
        case None:
            return rates
        case LinearScalingConfig(factor=factor):
            return rates / factor
        case Llama3ScalingConfig(low_frequency_factor=low, high_frequency_factor=high):
            turns = scaling.original_length * rates / (2 * math.pi)
            unscaled = ((turns - low) / (high - low)).clamp(0, 1)
            return (1 - unscaled) * rates / scaling.factor + unscaled * rates


def apply_rotary(
    x: HeadVectors,
    position_ids: Int[Tensor, "#rows positions"],
    *,
    base: float,
    scaling: RotaryScaling | None = None,
) -> HeadVectors:
    """Rotate `x` by its positions."""
    half = x.shape[-1] // 2
    angles = position_ids[:, None, :, None] * rotation_rates(half, base=base, scaling=scaling, device=x.device)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if core := cpu_ops_for(x):
        return CpuRotary.apply(x, cosine[:, 0], sine[:, 0], core)  # type: ignore[no-untyped-call]
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


@final
class RotaryPositions(nn.Module):
    """`apply_rotary` as a module without parameters."""

    def __init__(self, *, base: float, scaling: RotaryScaling | None = None) -> None:
        super().__init__()
        self.base = base
        self.scaling = scaling

    def forward(self, x: HeadVectors, position_ids: Int[Tensor, "#rows positions"]) -> HeadVectors:
        return apply_rotary(x, position_ids, base=self.base, scaling=self.scaling)
