"""Layer normalization (Ba et al., 2016) and its root-mean-square form (Zhang and Sennrich, 2019)."""

from typing import Literal, assert_never

from torch import nn

NormName = Literal["layer", "rms"]


def build_norm(name: NormName, size: int) -> nn.LayerNorm | nn.RMSNorm:
    """Build a norm over the last axis."""
    match name:
        case "layer":
            return nn.LayerNorm(size)
        case "rms":
            return nn.RMSNorm(size, eps=1e-6)
        case _:
            assert_never(name)
