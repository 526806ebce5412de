"""What a decoder keeps of the positions so far: keys and values of every layer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.masks import left_padding_mask
from dragoman.typing import BeamTokens, Bool, Int

Layers = tuple[KVCache, ...]


@dataclass(frozen=True)
class DecoderState:
    """Keys and values of the target so far, `beam` rows a sentence; younger sentences are padded before their first."""

    layers: Layers
    lengths: Int[Tensor, " batch"]
    beam_size: int

    def reorder(self, parents: BeamTokens) -> Self:
        batch, beam = parents.shape
        first = torch.arange(batch, device=parents.device)[:, None] * self.beam_size
        rows = (first + parents).flatten()
        return type(self)(tuple(layer.select(rows) for layer in self.layers), self.lengths, beam)

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        beams = torch.arange(self.beam_size, device=rows.device)
        flat = (rows[:, None] * self.beam_size + beams).flatten()
        return type(self)(tuple(layer.select(flat) for layer in self.layers), self.lengths[rows], self.beam_size)

    def concat(self, other: Self) -> Self:
        assert self.beam_size == other.beam_size, "the beams of joined states are of one width"
        width = int(
            torch.cat([self.lengths, other.lengths]).max()
        )  # further back there is nothing that anyone may look at
        pairs = zip(self._padded(width), other._padded(width), strict=True)
        layers = tuple(mine.concat(theirs) for mine, theirs in pairs)
        return type(self)(layers, torch.cat([self.lengths, other.lengths]), self.beam_size)

    @classmethod
    def empty(
        cls, attentions: Iterable[MultiHeadAttention], *, size: int, ages: Int[Tensor, " batch"], beam: int
    ) -> Self:
        """Before the first position, for attentions to inputs of `size` numbers."""
        nowhere = ages.new_zeros(len(ages) * beam, 0)
        layers = []
        for attention in attentions:
            nothing = attention.query.weight.new_zeros(*nowhere.shape, size)
            layers.append(attention.project_keys_values(nothing, nowhere))
        return cls(tuple(layers), ages, beam)

    def next_positions(self) -> Int[Tensor, "rows 1"]:
        """Where the next token of each row stands."""
        return self.lengths.repeat_interleave(self.beam_size)[:, None]

    def next_mask(self) -> Bool[Tensor, "rows 1 1 keys"]:
        """What the next token of each row may look at, itself included."""
        return left_padding_mask((self.lengths + 1).repeat_interleave(self.beam_size), self._width + 1)

    @property
    def _width(self) -> int:
        return self.layers[0].length

    def _padded(self, width: int) -> Layers:
        """So many positions of each layer: the latest, or all of them after room for more."""
        return tuple(layer.pad(before=width - layer.length) for layer in self.layers)
