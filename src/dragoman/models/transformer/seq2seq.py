"""The encoder-decoder Transformer (Vaswani et al., 2017, figure 1).

The decoder has one pass for training and inference: all target positions in parallel under the causal mask, or one
more position of every hypothesis with the keys and values of the layers kept in a `DecoderState`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.nn.blocks import DecoderBlock, EncoderBlock
from dragoman.nn.cache import KeysValues
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.masks import causal, latest, within
from dragoman.shapes import BeamTokens, Lengths, SourceIds, StepLogits, TargetIds

Layers = tuple[KeysValues, ...]


@dataclass(frozen=True)
class SourceMemory:
    """Keys and values of the source for each decoder layer, one row a sentence, padded after its length."""

    layers: Layers
    lengths: Lengths

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(tuple(layer.take(rows) for layer in self.layers), self.lengths[rows])

    def join(self, other: Self) -> Self:
        width = max(self._width, other._width)
        pairs = zip(self._padded(width), other._padded(width), strict=True)
        layers = tuple(mine.stack(theirs) for mine, theirs in pairs)
        return type(self)(layers, torch.cat([self.lengths, other.lengths]))

    def allowed(self) -> Bool[Tensor, "batch 1 1 source"]:
        return within(self.lengths, self._width)

    @property
    def _width(self) -> int:
        return self.layers[0].positions

    def _padded(self, width: int) -> Layers:
        return tuple(layer.pad(after=width - layer.positions) for layer in self.layers)


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
        width = max(self._width, other._width)
        pairs = zip(self._padded(width), other._padded(width), strict=True)
        layers = tuple(mine.stack(theirs) for mine, theirs in pairs)
        return type(self)(layers, torch.cat([self.ages, other.ages]), self.beam)

    @property
    def _width(self) -> int:
        return self.layers[0].positions

    def _padded(self, width: int) -> Layers:
        return tuple(layer.pad(before=width - layer.positions) for layer in self.layers)


@final
class Seq2SeqTransformer(nn.Module):
    """Implements `models.interfaces.Seq2Seq`."""

    def __init__(
        self,
        *,
        source_embedding: TokenEmbedding,
        target_embedding: TokenEmbedding,
        encoder: list[EncoderBlock],
        decoder: list[DecoderBlock],
        encoder_norm: nn.Module,
        decoder_norm: nn.Module,
        unembedding: Unembedding,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder: Sequence[EncoderBlock] = nn.ModuleList(encoder)  # type: ignore[assignment]  # it is one, untyped
        self.decoder: Sequence[DecoderBlock] = nn.ModuleList(decoder)  # type: ignore[assignment]
        self.encoder_norm = encoder_norm
        self.decoder_norm = decoder_norm
        self.unembedding = unembedding

    @property
    def maximum_length(self) -> int | None:
        """The longest sequence that the positions know, or None where they have no end."""
        return self.target_embedding.positions.maximum_length

    @property
    def device(self) -> torch.device:
        return self.unembedding.weight.device

    def encode(self, source: SourceIds, lengths: Lengths) -> SourceMemory:
        places = torch.arange(source.shape[1], device=source.device)[None]
        allowed = within(lengths, source.shape[1])
        x = self.source_embedding(source, places)
        for block in self.encoder:
            x = block(x, allowed)
        x = self.encoder_norm(x)
        return SourceMemory(tuple(block.cross_attention.keys_values(x) for block in self.decoder), lengths)

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        memory = self.encode(source, source_lengths)
        places = torch.arange(target.shape[1], device=target.device)[None]
        # Padding stands after the target, where the causal mask already hides it from every real position.
        allowed = causal(target.shape[1], target.shape[1], device=target.device)
        x, _ = self._decode(self.target_embedding(target, places), memory, None, allowed)
        return x

    def forward(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of what follows each position of `target`, which begins with the begin symbol."""
        return self.unembed(self.hidden(source, source_lengths, target))

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        logits: Float[Tensor, "*positions vocabulary"] = self.unembedding(hidden)
        return logits

    def start(self, memory: SourceMemory, *, beam: int) -> DecoderState:
        batch = memory.lengths.shape[0]
        layers = tuple(
            KeysValues(
                keys.new_zeros(batch * beam, keys.shape[1], 0, keys.shape[3]),
                values.new_zeros(batch * beam, values.shape[1], 0, values.shape[3]),
            )
            for keys, values in ((layer.keys, layer.values) for layer in memory.layers)
        )
        return DecoderState(layers, torch.zeros_like(memory.lengths), beam)

    def step(self, tokens: BeamTokens, memory: SourceMemory, state: DecoderState) -> tuple[StepLogits, DecoderState]:
        ages = state.ages + 1
        places = state.ages.repeat_interleave(state.beam)[:, None]
        allowed = latest(ages.repeat_interleave(state.beam), state.layers[0].positions + 1)
        x = self.target_embedding(tokens.reshape(-1, 1), places)
        x, layers = self._decode(x, memory, state.layers, allowed)
        logits = self.unembed(x[:, 0]).unflatten(0, tokens.shape)
        return logits, DecoderState(layers, ages, state.beam)

    def _decode(
        self,
        x: Float[Tensor, "rows places size"],
        memory: SourceMemory,
        past: Layers | None,
        allowed: Bool[Tensor, "#rows 1 #places keys"],
    ) -> tuple[Float[Tensor, "rows places size"], Layers]:
        memory_allowed = memory.allowed()
        present = []
        for number, block in enumerate(self.decoder):
            before = None if past is None else past[number]
            x, seen = block(x, memory.layers[number], before, allowed=allowed, memory_allowed=memory_allowed)
            present.append(seen)
        return self.decoder_norm(x), tuple(present)
