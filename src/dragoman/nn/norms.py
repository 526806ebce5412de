"""Layer normalization (Ba et al., 2016) and its root-mean-square form (Zhang and Sennrich, 2019)."""

from collections.abc import Mapping
from typing import Final, Literal, assert_never

from torch import nn

NormName = Literal["layer", "rms"]
EPSILON: Final[Mapping[NormName, float]] = {"layer": 1e-5, "rms": 1e-6}
"""Default epsilon of each norm."""


def build_norm(name: NormName, size: int, *, epsilon: float | None = None) -> nn.LayerNorm | nn.RMSNorm:
    """Build a norm over the last axis; `epsilon` is added to the variance, by default `EPSILON`."""
    epsilon = EPSILON[name] if epsilon is None else epsilon
    match name:
        case "layer":
            return nn.LayerNorm(size, eps=epsilon)
        case "rms":
            return nn.RMSNorm(size, eps=epsilon)
        case _:
            assert_never(name)
