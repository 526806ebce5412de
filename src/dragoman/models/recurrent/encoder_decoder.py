"""The recurrent encoder-decoder, with attention (Luong et al., 2015) or with the bottleneck (Sutskever et al., 2014).

Without attention, all that the decoder gets of a sentence is `RecurrentMemory.first`: as many numbers for a long one as
for a short one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor, nn

from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.masks import padding_mask
from dragoman.nn.recurrent.attention import AttentionMemory
from dragoman.nn.recurrent.cells import LayerStates, concat_states, map_states
from dragoman.nn.recurrent.decoder import DecoderInit, RecurrentDecoder
from dragoman.nn.recurrent.encoder import RecurrentEncoder
from dragoman.typing import BeamTokens, Float, Int, Lengths, SourceIds, StepLogits, TargetIds


@dataclass(frozen=True)
class RecurrentMemory:
    """What the decoder gets of the source, one row a sentence."""

    encoder_states: KVCache | None
    """The encoder's states to look at, padded after their lengths; None without attention."""
    initial_states: LayerStates
    """The decoder's states before its first step."""
    lengths: Lengths

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        seen = None if self.encoder_states is None else self.encoder_states.select(rows)
        return type(self)(seen, map_states(self.initial_states, lambda part: part[rows]), self.lengths[rows])

    def concat(self, other: Self) -> Self:
        seen = None
        if self.encoder_states is not None and other.encoder_states is not None:
            width = int(torch.cat([self.lengths, other.lengths]).max())  # longer ones may have left
            mine, theirs = (one.pad(after=width - one.length) for one in (self.encoder_states, other.encoder_states))
            seen = mine.concat(theirs)
        return type(self)(
            seen, concat_states(self.initial_states, other.initial_states), torch.cat([self.lengths, other.lengths])
        )

    def attention_memory(self) -> AttentionMemory | None:
        """What there is to look at."""
        return (
            None
            if self.encoder_states is None
            else AttentionMemory(self.encoder_states, padding_mask(self.lengths, self.encoder_states.length))
        )


@dataclass(frozen=True)
class RecurrentState:
    """Where each hypothesis is; as many numbers at every age."""

    layer_states: LayerStates
    """Each vector is of shape (batch, beam, size)."""
    previous_output: Float[Tensor, "batch beam size"] | None
    """The last output, where it is fed to the next step."""

    def reorder(self, parents: BeamTokens) -> Self:
        rows = torch.arange(parents.shape[0], device=parents.device)[:, None]
        return self._each(lambda part: part[rows, parents])

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        return self._each(lambda part: part[rows])

    def concat(self, other: Self) -> Self:
        fed = (
            None
            if self.previous_output is None or other.previous_output is None
            else torch.cat([self.previous_output, other.previous_output])
        )
        return type(self)(concat_states(self.layer_states, other.layer_states), fed)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(
            map_states(self.layer_states, change),
            None if self.previous_output is None else change(self.previous_output),
        )


@final
class RecurrentEncoderDecoder(nn.Module):
    """Implements `EncoderDecoder`."""

    max_length: int | None = None
    """Sequences have no end: nothing counts places."""

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
        self.bridges: Sequence[DecoderInit] = nn.ModuleList(bridges)  # type: ignore[assignment]  # it is one, untyped
        self.decoder = decoder
        self.unembedding = unembedding

    @property
    def device(self) -> torch.device:
        return self.unembedding.weight.device

    def encode(self, source: SourceIds, lengths: Lengths) -> RecurrentMemory:
        encoded = self.encoder(_embedded(self.source_embedding, source), lengths)
        attention = self.decoder.attention
        seen = None if attention is None else attention.keys_values(encoded.states)
        return RecurrentMemory(seen, self._first(encoded.last), lengths)

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        memory = self.encode(source, source_lengths)
        return self.decoder(_embedded(self.target_embedding, target), memory.initial_states, memory.attention_memory())

    def forward(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of what follows each position of `target`, which begins with the begin symbol."""
        return self.unembed(self.hidden(source, source_lengths, target))

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        logits: Float[Tensor, "*positions vocabulary"] = self.unembedding(hidden)
        return logits

    def start(self, memory: RecurrentMemory, *, beam_size: int) -> RecurrentState:
        cells = map_states(memory.initial_states, lambda part: part[:, None].expand(-1, beam_size, -1))
        return RecurrentState(cells, None if self.decoder.input_feeding is None else torch.zeros_like(cells[-1][0]))

    def step(
        self, tokens: BeamTokens, memory: RecurrentMemory, state: RecurrentState
    ) -> tuple[StepLogits, RecurrentState]:
        embedded = _embedded(self.target_embedding, tokens).flatten(0, 1)
        output, cells = self.decoder.step(
            self.decoder.project_input(embedded),
            map_states(state.layer_states, lambda part: part.flatten(0, 1)),
            previous_output=None if state.previous_output is None else state.previous_output.flatten(0, 1),
            memory=memory.attention_memory(),
        )
        output = output.unflatten(0, tokens.shape)
        after = map_states(cells, lambda part: part.unflatten(0, tokens.shape))
        return self.unembed(output), RecurrentState(after, None if state.previous_output is None else output)

    def alignment(self, memory: RecurrentMemory, state: RecurrentState) -> Float[Tensor, "batch beam source"]:
        """The weights with which the step that led to a state looked at the source.

        For networks with attention, and states after their first step.
        """
        view, attention = memory.attention_memory(), self.decoder.attention
        assert view is not None and attention is not None, "a network without attention looks at nothing"  # noqa: PT018
        return attention.weights(state.layer_states[-1][0], view)

    def _first(self, last: tuple[tuple[Float[Tensor, "batch encoder_size"], ...], ...]) -> LayerStates:
        """Layers correspond from the top; the lowest of the encoder begins all those of the decoder that are left."""
        above = len(last) - len(self.bridges)
        return tuple(bridge(last[max(0, number + above)]) for number, bridge in enumerate(self.bridges))


def _embedded(embedding: TokenEmbedding, ids: Int[Tensor, "rows places"]) -> Float[Tensor, "rows places size"]:
    return embedding(ids, torch.arange(ids.shape[1], device=ids.device)[None])
