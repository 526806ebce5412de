"""Annotations of arrays by kind and axes, such as `Float[Tensor, "batch size"]`, and the shapes that packages exchange.

The test suite imports jaxtyping first, and every call is checked. Without it an annotation is the type of the array
alone: jaxtyping takes a tenth of the start-up time of a command, and a command that needs no tensors imports no torch.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Float32 as Float32
    from jaxtyping import Int as Int
    from jaxtyping import Int8 as Int8
    from jaxtyping import Shaped as Shaped
    from jaxtyping import UInt16 as UInt16
    from torch import Tensor as Tensor
else:

    class Shaped:
        """An array of any kind of numbers."""

        def __class_getitem__(cls, array_and_axes: tuple[Any, str]) -> Any:
            return array_and_axes[0]

    Bool = Float = Float32 = Int = Int8 = UInt16 = Shaped
    Tensor = Any

Rows = NDArray[np.int64]
"""Indices of examples in a dataset."""
SourceIds = Int[Tensor, "batch source"]
TargetIds = Int[Tensor, "batch target"]
Tokens = Int[Tensor, "batch positions"]
Lengths = Int[Tensor, " batch"]
BeamTokens = Int[Tensor, "batch beam"]
StepLogits = Float[Tensor, "batch beam vocabulary"]


@dataclass(frozen=True)
class SourceFeatures:
    """Optional features of the tokens of a source batch: the dependency heads of their words, from 1.

    Word 0 is an artificial root: it is the head of the roots of a sentence, and EOS belongs to it.
    """

    words: Int[Tensor, "batch source"]
    """Word of each token; 0 for EOS and padding."""
    heads: Int[Tensor, "batch words"]
    """Head of each word, from word 0 on, whose head is itself; 0 for padding."""

    def to(self, device: Any) -> Self:
        """Copy to a device."""
        return type(self)(self.words.to(device, non_blocking=True), self.heads.to(device, non_blocking=True))
