"""What a decoder keeps of the positions so far: keys and values of every layer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.kv_cache import KeysValues
from dragoman.nn.masks import latest
from dragoman.shapes import BeamTokens
from dragoman.typing import Bool, Int

Layers = tuple[KeysValues, ...]


@dataclass(frozen=True)
class DecoderState:
    """Keys and values of the target so far, `beam` rows a sentence; younger sentences are padded before their first."""

    layers: Layers
    ages: Int[Tensor, " batch"]
    beam: int

    def select(self, parents: BeamTokens) -> Self:
        batch, beam = parents.shape
        first = torch.arange(batch, device=parents.device)[:, None] * self.beam
        rows = (first + parents).flatten()
        return type(self)(tuple(layer.take(rows) for layer in self.layers), self.ages, beam)

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        beams = torch.arange(self.beam, device=rows.device)
        flat = (rows[:, None] * self.beam + beams).flatten()
        return type(self)(tuple(layer.take(flat) for layer in self.layers), self.ages[rows], self.beam)

    def join(self, other: Self) -> Self:
        assert self.beam == other.beam, "the beams of joined states are of one width"
        width = int(torch.cat([self.ages, other.ages]).max())  # further back there is nothing that anyone may look at
        pairs = zip(self._padded(width), other._padded(width), strict=True)
        layers = tuple(mine.stack(theirs) for mine, theirs in pairs)
        return type(self)(layers, torch.cat([self.ages, other.ages]), self.beam)

    @classmethod
    def empty(
        cls, attentions: Iterable[MultiHeadAttention], *, size: int, ages: Int[Tensor, " batch"], beam: int
    ) -> Self:
        """Before the first position, for attentions to inputs of `size` numbers."""
        nowhere = ages.new_zeros(len(ages) * beam, 0)
        layers = []
        for attention in attentions:
            nothing = attention.query.weight.new_zeros(*nowhere.shape, size)
            layers.append(attention.keys_values(nothing, nowhere))
        return cls(tuple(layers), ages, beam)

    def next_places(self) -> Int[Tensor, "rows 1"]:
        """Where the next token of each row stands."""
        return self.ages.repeat_interleave(self.beam)[:, None]

    def next_allowed(self) -> Bool[Tensor, "rows 1 1 keys"]:
        """What the next token of each row may look at, itself included."""
        return latest((self.ages + 1).repeat_interleave(self.beam), self._width + 1)

    @property
    def _width(self) -> int:
        return self.layers[0].positions

    def _padded(self, width: int) -> Layers:
        """So many positions of each layer: the latest, or all of them after room for more."""
        return tuple(layer.pad(before=width - layer.positions) for layer in self.layers)
