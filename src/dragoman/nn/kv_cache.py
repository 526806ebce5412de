"""Keys and values of one attention: of the source for all beams of a sentence, or of the positions decoded so far."""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.typing import Float, Int


@dataclass(frozen=True)
class KeysValues:
    """One row is a sentence (memory) or a hypothesis (cache)."""

    keys: Float[Tensor, "rows heads positions width"]
    values: Float[Tensor, "rows heads positions head_size"]

    def append(self, new: Self) -> Self:
        """These positions with the new ones after them."""
        return type(self)(torch.cat([self.keys, new.keys], dim=2), torch.cat([self.values, new.values], dim=2))

    def take(self, rows: Int[Tensor, " taken"]) -> Self:
        """The given rows, in the given order; a row may be taken more than once."""
        return type(self)(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def pad(self, *, before: int = 0, after: int = 0) -> Self:
        """Room for positions that no mask will allow; less than none leaves so many positions out."""
        widths = (0, 0, before, after)
        return type(self)(F.pad(self.keys, widths), F.pad(self.values, widths))

    def shift(self, by: Int[Tensor, " rows"]) -> Self:
        """Each row moved `by` so many positions towards the end; what falls off there comes in at the beginning."""
        width = self.positions
        index = (torch.arange(width, device=by.device) - by[:, None]) % max(1, width)
        index = index[:, None, :, None]

        def moved(x: Float[Tensor, "rows heads positions size"]) -> Float[Tensor, "rows heads positions size"]:
            return x.gather(2, index.expand(-1, x.shape[1], -1, x.shape[3]))

        return type(self)(moved(self.keys), moved(self.values))

    def stack(self, other: Self) -> Self:
        """The rows of the other after these; both hold the same number of positions."""
        return type(self)(torch.cat([self.keys, other.keys]), torch.cat([self.values, other.values]))

    @property
    def positions(self) -> int:
        return self.keys.shape[2]
