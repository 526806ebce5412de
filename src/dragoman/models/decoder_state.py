"""Decoding of Transformers: the states of all layers, and a pass over the decoder blocks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self, TypeVar

import torch
from torch import Tensor

from dragoman.array_types import BeamTokens, Bool, Int
from dragoman.nn.attention import KeyMask, PositionIds
from dragoman.nn.blocks import DecoderBlock, Hidden
from dragoman.nn.embedding import TokenEmbedding
from dragoman.nn.kv_cache import KVCache, LayerState
from dragoman.nn.masks import left_padding_mask, padding_mask

Layers = tuple[LayerState, ...]
_L = TypeVar("_L", bound=LayerState)


def concat_layers(layers: tuple[_L, ...], others: tuple[_L, ...], pad: Callable[[_L], _L]) -> tuple[_L, ...]:
    """Concatenate the rows of the states of each layer, padded to one length."""
    return tuple(pad(mine).concat(pad(theirs)) for mine, theirs in zip(layers, others, strict=True))


@dataclass(frozen=True)
class SourceMemory:
    """Keys and values of the source for each decoder layer, one row per sentence, padded at the end."""

    layers: tuple[KVCache, ...]
    lengths: Int[Tensor, " batch"]

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(tuple(layer.select(rows) for layer in self.layers), self.lengths[rows])

    def concat(self, other: Self) -> Self:
        lengths = torch.cat([self.lengths, other.lengths])
        width = int(lengths.max())  # a longer sentence may have left
        return type(self)(
            concat_layers(self.layers, other.layers, lambda layer: layer.pad(after=width - layer.length)), lengths
        )

    def mask(self) -> Bool[Tensor, "batch 1 1 source"]:
        return padding_mask(self.lengths, self.layers[0].length)


@dataclass(frozen=True)
class DecoderState:
    """States of the layers, `beam_size` rows per sentence; caches of shorter sentences are padded at the start."""

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
        lengths = torch.cat([self.lengths, other.lengths])
        width = int(lengths.max())  # no row has more positions
        layers = concat_layers(self.layers, other.layers, lambda layer: layer.pad(before=width - layer.length))
        return type(self)(layers, lengths, self.beam_size)


def decoder_pass(
    blocks: Iterable[DecoderBlock],
    x: Hidden,
    past: Layers | None,
    *,
    mask: KeyMask | None,
    position_ids: PositionIds,
    memory: SourceMemory | None = None,
) -> tuple[Hidden, Layers]:
    """Return the output of the blocks and the states after it; cross-attention requires `memory`."""
    memory_mask = None if memory is None else memory.mask()
    present = []
    for number, block in enumerate(blocks):
        before = None if past is None else past[number]
        source = None if memory is None else memory.layers[number]
        x, seen = block(x, before, mask=mask, position_ids=position_ids, memory=source, memory_mask=memory_mask)
        present.append(seen)
    return x, tuple(present)


def decoder_step(
    embedding: TokenEmbedding,
    blocks: Iterable[DecoderBlock],
    tokens: BeamTokens,
    state: DecoderState,
    memory: SourceMemory | None = None,
) -> tuple[Hidden, DecoderState]:
    """Return the output of the blocks for one new token of each hypothesis, and the next state."""
    lengths = state.lengths[:, None].expand(-1, state.beam_size).flatten()
    position_ids, mask = lengths[:, None], left_padding_mask(lengths + 1, state.layers[0].length + 1)
    x = embedding(tokens.reshape(-1, 1), position_ids)
    x, layers = decoder_pass(blocks, x, state.layers, mask=mask, position_ids=position_ids, memory=memory)
    return x, DecoderState(layers, state.lengths + 1, state.beam_size)
