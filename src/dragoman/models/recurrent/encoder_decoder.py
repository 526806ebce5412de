"""Recurrent encoder-decoder with attention (Luong et al., 2015) or without (Sutskever et al., 2014).

Without attention, the decoder sees a sentence only through `RecurrentMemory.initial_states`, whose size is fixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor, nn

from dragoman.array_types import BeamTokens, Float, Int, Lengths, SourceIds, StepLogits, TargetIds
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.masks import padding_mask
from dragoman.nn.recurrent.cells import stack_states, unstack_states
from dragoman.nn.recurrent.decoder import DecoderInit, RecurrentDecoder
from dragoman.nn.recurrent.encoder import RecurrentEncoder
from dragoman.nn.recurrent.global_attention import AttentionMemory


@dataclass(frozen=True)
class RecurrentMemory:
    """Encoded sources, one row per sentence."""

    encoder_states: KVCache | None
    """Encoder states, padded at the end; None without attention."""
    initial_states: Float[Tensor, "layers parts batch size"]
    """Decoder states before the first step."""
    lengths: Lengths

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        states = None if self.encoder_states is None else self.encoder_states.select(rows)
        return type(self)(states, self.initial_states[:, :, rows], self.lengths[rows])

    def concat(self, other: Self) -> Self:
        states, lengths = None, torch.cat([self.lengths, other.lengths])
        if self.encoder_states is not None and other.encoder_states is not None:
            width = int(lengths.max())  # a longer sentence may have left
            mine, theirs = (one.pad(after=width - one.length) for one in (self.encoder_states, other.encoder_states))
            states = mine.concat(theirs)
        return type(self)(states, torch.cat([self.initial_states, other.initial_states], dim=2), lengths)

    def attention_memory(self) -> AttentionMemory | None:
        """Return the encoder states with their mask, or None without attention."""
        if self.encoder_states is None:
            return None
        return AttentionMemory(self.encoder_states, padding_mask(self.lengths, self.encoder_states.length))


@dataclass(frozen=True)
class RecurrentState:
    """Decoder state of every hypothesis, whose size does not grow."""

    layer_states: Float[Tensor, "layers parts batch beam size"]
    previous_output: Float[Tensor, "batch beam size"] | None
    """Output of the last step, for input feeding."""

    def reorder(self, parents: BeamTokens) -> Self:
        rows = torch.arange(parents.shape[0], device=parents.device)[:, None]
        output = None if self.previous_output is None else self.previous_output[rows, parents]
        return type(self)(self.layer_states[:, :, rows, parents], output)

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        output = None if self.previous_output is None else self.previous_output[rows]
        return type(self)(self.layer_states[:, :, rows], output)

    def concat(self, other: Self) -> Self:
        output = None
        if self.previous_output is not None and other.previous_output is not None:
            output = torch.cat([self.previous_output, other.previous_output])
        return type(self)(torch.cat([self.layer_states, other.layer_states], dim=2), output)


@final
class RecurrentEncoderDecoder(nn.Module):
    """Recurrent encoder-decoder; implements `EncoderDecoder`."""

    max_length: int | None = None

    def __init__(
        self,
        *,
        source_embedding: TokenEmbedding,
        target_embedding: TokenEmbedding,
        encoder: RecurrentEncoder,
        bridges: list[DecoderInit],
        decoder: RecurrentDecoder,
        unembedding: Unembedding,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.bridges: Sequence[DecoderInit] = nn.ModuleList(bridges)  # type: ignore[assignment]  # typed as a sequence
        self.decoder = decoder
        self.unembedding = unembedding

    def encode(self, source: SourceIds, lengths: Lengths) -> RecurrentMemory:
        encoded = self.encoder(self.source_embedding(source), lengths)
        attention = self.decoder.attention
        states = None if attention is None else attention.keys_values(encoded.states)
        # Layers correspond from the top; the lowest encoder layer initializes all remaining decoder layers.
        offset = len(encoded.last) - len(self.bridges)
        initial = [bridge(encoded.last[max(0, number + offset)]) for number, bridge in enumerate(self.bridges)]
        return RecurrentMemory(states, stack_states(initial), lengths)

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        memory = self.encode(source, source_lengths)
        cells = unstack_states(memory.initial_states)
        return self.decoder(self.target_embedding(target), cells, memory.attention_memory())

    def forward(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Return the logits of the token after each position of `target`, which starts with BOS."""
        return self.unembed(self.hidden(source, source_lengths, target))

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        return self.unembedding(hidden)

    def start(self, memory: RecurrentMemory, *, beam_size: int) -> RecurrentState:
        states = memory.initial_states[:, :, :, None].expand(-1, -1, -1, beam_size, -1)
        return RecurrentState(states, None if self.decoder.input_feeding is None else torch.zeros_like(states[-1, 0]))

    def step(
        self, tokens: BeamTokens, memory: RecurrentMemory, state: RecurrentState
    ) -> tuple[StepLogits, RecurrentState]:
        output, cells = self.decoder.step(
            self.decoder.project_input(self.target_embedding(tokens).flatten(0, 1)),
            unstack_states(state.layer_states.flatten(2, 3)),
            previous_output=None if state.previous_output is None else state.previous_output.flatten(0, 1),
            memory=memory.attention_memory(),
        )
        output, states = output.unflatten(0, tokens.shape), stack_states(cells).unflatten(2, tokens.shape)
        return self.unembed(output), RecurrentState(states, None if state.previous_output is None else output)

    def alignment(self, memory: RecurrentMemory, state: RecurrentState) -> Float[Tensor, "batch beam source"]:
        """Return the attention weights of the step that led to a state; requires attention."""
        encoder_states, attention = memory.attention_memory(), self.decoder.attention
        assert encoder_states is not None and attention is not None, "the model has no attention"  # noqa: PT018
        return attention.weights(state.layer_states[-1, 0], encoder_states)
