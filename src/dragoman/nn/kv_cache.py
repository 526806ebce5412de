"""Key-value cache of one attention layer: of the source for all beams, or of the positions decoded so far."""

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.array_types import Float, Int


@runtime_checkable
class LayerState(Protocol):
    """Cached tensors of one decoder layer; a row is a hypothesis."""

    @property
    def length(self) -> int:
        """Number of cached positions."""
        ...

    def select(self, rows: Any) -> Self:
        """Select rows in the given order; a row may occur more than once."""
        ...

    def pad(self, *, before: int = 0, after: int = 0) -> Self:
        """Pad with positions that the masks must hide; a negative count removes positions."""
        ...

    def concat(self, other: Self) -> Self:
        """Concatenate the rows of two states of equal length."""
        ...


@dataclass(frozen=True)
class KVCache:
    """Keys and values; a row is a sentence (encoder memory) or a hypothesis (decoder cache)."""

    keys: Float[Tensor, "rows heads positions width"]
    values: Float[Tensor, "rows heads positions head_size"]

    def append(self, new: Self) -> Self:
        """Append new positions."""
        return type(self)(torch.cat([self.keys, new.keys], dim=2), torch.cat([self.values, new.values], dim=2))

    def select(self, rows: Int[Tensor, " taken"]) -> Self:
        """Select rows in the given order; a row may occur more than once."""
        return type(self)(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def pad(self, *, before: int = 0, after: int = 0) -> Self:
        """Pad with positions that the masks must hide; a negative count removes positions."""
        widths = (0, 0, before, after)
        return type(self)(F.pad(self.keys, widths), F.pad(self.values, widths))

    def shift(self, by: Int[Tensor, " rows"]) -> Self:
        """Rotate each row `by` a number of positions, at most its length, towards the end."""
        index = torch.arange(self.length, device=by.device) - by[:, None]
        index = torch.where(index < 0, index + self.length, index)[:, None, :, None]

        def moved(x: Float[Tensor, "rows heads positions size"]) -> Float[Tensor, "rows heads positions size"]:
            return x.gather(2, index.expand(-1, x.shape[1], -1, x.shape[3]))

        return type(self)(moved(self.keys), moved(self.values))

    def concat(self, other: Self) -> Self:
        """Concatenate the rows of two caches of equal length."""
        return type(self)(torch.cat([self.keys, other.keys]), torch.cat([self.values, other.values]))

    @property
    def length(self) -> int:
        return self.keys.shape[2]
