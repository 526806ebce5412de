"""State of Transformer decoders: the key-value cache of every layer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dragoman.array_types import BeamTokens, Bool, Int
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.masks import left_padding_mask

Layers = tuple[KVCache, ...]


@dataclass(frozen=True)
class DecoderState:
    """Key-value caches, `beam_size` rows per sentence; shorter sentences are padded at the start."""

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
        assert self.beam_size == other.beam_size, "states of different beam sizes cannot be joined"
        width = int(torch.cat([self.lengths, other.lengths]).max())  # no row has more positions
        pairs = zip(self._padded(width), other._padded(width), strict=True)
        layers = tuple(mine.concat(theirs) for mine, theirs in pairs)
        return type(self)(layers, torch.cat([self.lengths, other.lengths]), self.beam_size)

    @classmethod
    def empty(
        cls, attentions: Iterable[MultiHeadAttention], *, size: int, lengths: Int[Tensor, " batch"], beam_size: int
    ) -> Self:
        """Return the state before the first position, for inputs of `size` features."""
        position_ids = lengths.new_zeros(len(lengths) * beam_size, 0)
        layers = []
        for attention in attentions:
            inputs = attention.query.weight.new_zeros(*position_ids.shape, size)
            layers.append(attention.project_keys_values(inputs, position_ids))
        return cls(tuple(layers), lengths, beam_size)

    def next_positions(self) -> Int[Tensor, "rows 1"]:
        """Return the position of the next token of each row."""
        return self.lengths.repeat_interleave(self.beam_size)[:, None]

    def next_mask(self) -> Bool[Tensor, "rows 1 1 keys"]:
        """Return the keys that the next token of each row may attend to, including its own."""
        return left_padding_mask((self.lengths + 1).repeat_interleave(self.beam_size), self._width + 1)

    @property
    def _width(self) -> int:
        return self.layers[0].length

    def _padded(self, width: int) -> Layers:
        return tuple(layer.pad(before=width - layer.length) for layer in self.layers)
