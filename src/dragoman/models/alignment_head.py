"""Choice of the cross-attention that is read as a word alignment."""

from dataclasses import dataclass
from typing import Self, final

import numpy as np

from dragoman.array_types import Float
from dragoman.errors import DataError


@final
@dataclass(frozen=True, slots=True)
class AlignmentHead:
    """Cross-attention that is read as an alignment.

    The step that predicts a word attends to the source before it knows the word. `shifted` takes the weights of the
    next step, whose input is the word (Chen et al., 2020, section 3).
    """

    layer: int
    head: int | None
    """None for the mean over heads."""
    shifted: bool

    @classmethod
    def default(cls, layers: int, *, ssru: bool) -> Self:
        """Return the choice for a decoder without a gold alignment to measure it by.

        Students of Marian with an SSRU decoder are trained with guided alignment in the first head of the last layer.
        In other models the mean of the penultimate layer aligns (Garg et al., 2019, section 3.1). Raises DataError if
        the decoder has no cross-attention.
        """
        if layers < 1:
            raise no_alignment_error()
        return cls(layers - 1, 0, shifted=False) if ssru else cls(max(0, layers - 2), None, shifted=False)

    def read(self, weights: Float[np.ndarray, "heads steps source"]) -> Float[np.ndarray, "steps source"]:
        """Return the weights of each target token, from those of the steps that predict them, the end symbol's last.

        After the last step there is none, so that the end symbol has its own weights. Zero weights of pruned heads do
        not count.
        """
        if self.head is not None:
            rows = weights[self.head]
        else:
            kept = weights[weights.any(axis=(1, 2))]
            rows = kept.mean(axis=0) if len(kept) else weights[0]
        return np.concatenate([rows[1:], rows[-1:]]) if self.shifted else rows


def no_alignment_error() -> DataError:
    """Return the error of a model that cannot align words."""
    return DataError(
        "The model has no cross-attention that aligns words. Use an encoder-decoder Transformer with PyTorch or the "
        "CPU library."
    )
