"""The shapes that cross room boundaries, in the axis names of the project's vocabulary.

Axes: batch beam source target words queries keys size heads head_size vocabulary. Annotations are documentation in a
user's process and are checked at run time in the test suite (jaxtyping with beartype).
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dragoman.typing import Float, Int

SourceIds = Int[Tensor, "batch source"]
TargetIds = Int[Tensor, "batch target"]
Lengths = Int[Tensor, " batch"]
BeamTokens = Int[Tensor, "batch beam"]
StepLogits = Float[Tensor, "batch beam vocabulary"]


@dataclass(frozen=True)
class Structure:
    """The dependency trees of sentences. Word 0 is a root above all: the roots of a sentence hang on it, END is its."""

    words: Int[Tensor, "batch source"]
    """The word that each token is of, from 1; 0 for END and for padding."""
    heads: Int[Tensor, "batch words"]
    """The word that each word hangs on, from word 0 on, which hangs on itself; 0 for padding."""

    def to(self, device: torch.device) -> Self:
        """The same on a device."""
        return type(self)(self.words.to(device, non_blocking=True), self.heads.to(device, non_blocking=True))
