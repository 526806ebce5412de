"""Dropout (Srivastava et al., 2014) whose masks cost less than the layer they follow.

On a CPU PyTorch draws one Bernoulli number an element from a serial generator; here one 63-bit number serves four
elements, each kept when its share of the bits reaches a threshold. The probability obeyed is the nearest multiple of
2^-15 below 1.
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Shaped
from torch import Tensor, nn

_LEVELS = 2**16  # of 16 bits; thresholds are even, because the lowest bit of every fourth number is not random


def dropout(x: Shaped[Tensor, "*shape"], probability: float) -> Shaped[Tensor, "*shape"]:
    """`x` with each element zeroed with `probability` and the rest scaled so that the expectation stays."""
    if probability == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    threshold = min(2 * round(probability * _LEVELS / 2), _LEVELS - 2)
    kept = _survivors(x.shape, threshold)
    return x * kept.to(x.dtype).mul_(1 / (1 - probability))


def _survivors(shape: torch.Size, threshold: int) -> Bool[Tensor, "*shape"]:
    words = torch.empty(-(-shape.numel() // 4), dtype=torch.int64).random_().mul_(2)
    levels = words.view(torch.int16)[: shape.numel()].view(shape)
    return levels >= threshold - _LEVELS // 2


@final
class Dropout(nn.Module):
    """`dropout` while training, nothing otherwise."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        return dropout(x, self.probability) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.probability}"
