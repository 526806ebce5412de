"""The decoder-only Transformer (Radford et al., 2018): it predicts the next token of a text.

It is the decoder without a source: one pass for training and inference, over all places in parallel under the causal
mask or over one more place of every hypothesis. For a search the prompt takes the part of the source: `encode` reads it
in parallel, all but its last token, which is the first that `step` is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor, nn

from dragoman.models.decoder_state import DecoderState, Layers
from dragoman.nn.attention import PositionIds
from dragoman.nn.blocks import DecoderOnlyBlock
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.masks import document_mask
from dragoman.typing import BeamTokens, Bool, Float, Int, Lengths, SourceIds, StepLogits

Tokens = Int[Tensor, "batch places"]


@dataclass(frozen=True)
class PromptMemory:
    """The prompts, read: the state after all but their last tokens. `lengths` are those of the prompts."""

    state: DecoderState
    lengths: Lengths

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(self.state.select(rows), self.lengths[rows])

    def concat(self, other: Self) -> Self:
        return type(self)(self.state.concat(other.state), torch.cat([self.lengths, other.lengths]))


@final
class DecoderOnlyTransformer(nn.Module):
    """Implements `DecoderOnly`."""

    def __init__(
        self, *, embedding: TokenEmbedding, blocks: list[DecoderOnlyBlock], norm: nn.Module, unembedding: Unembedding
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks: Sequence[DecoderOnlyBlock] = nn.ModuleList(blocks)  # type: ignore[assignment]  # it is one, untyped
        self.norm = norm
        self.unembedding = unembedding

    @property
    def max_length(self) -> int | None:
        """The longest sequence that the positions know, or None where they have no end."""
        return self.embedding.max_length

    @property
    def device(self) -> torch.device:
        return self.unembedding.weight.device

    def hidden(self, tokens: Tokens, documents: Tokens | None = None) -> Float[Tensor, "batch places size"]:
        """The last hidden states of all places in parallel.

        `documents` numbers the document that each token is part of: no token looks at another document, and places
        begin anew with each. Without it a row is one document, padded after its end.
        """
        places = torch.arange(tokens.shape[1], device=tokens.device)[None]
        mask = None
        if documents is not None:
            places, mask = _places_within(documents), document_mask(documents)
        x, _ = self._decode(self.embedding(tokens, places), None, mask=mask, places=places)
        return x

    def forward(self, tokens: Tokens, documents: Tokens | None = None) -> Float[Tensor, "batch places vocabulary"]:
        """Logits of what follows each token."""
        return self.unembed(self.hidden(tokens, documents))

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        logits: Float[Tensor, "*positions vocabulary"] = self.unembedding(hidden)
        return logits

    def encode(self, prompt: SourceIds, lengths: Lengths) -> PromptMemory:
        """Read prompts of at least one token, all but their last in parallel."""
        read = lengths - 1
        width = int(read.max())
        places = torch.arange(width, device=prompt.device)[None]
        _, layers = self._decode(self.embedding(prompt[:, :width], places), None, mask=None, places=places)
        aligned = tuple(layer.shift(width - read) for layer in layers)
        return PromptMemory(DecoderState(aligned, read, 1), lengths)

    def start(self, memory: PromptMemory, *, beam_size: int) -> DecoderState:
        same = torch.zeros(len(memory.lengths), beam_size, dtype=torch.long, device=memory.lengths.device)
        return memory.state.reorder(same)

    def step(
        self,
        tokens: BeamTokens,
        memory: PromptMemory,  # noqa: ARG002  # the state began from it
        state: DecoderState,
    ) -> tuple[StepLogits, DecoderState]:
        places, mask = state.next_positions(), state.next_mask()
        x, layers = self._decode(self.embedding(tokens.reshape(-1, 1), places), state.layers, mask=mask, places=places)
        logits = self.unembed(x[:, 0]).unflatten(0, tokens.shape)
        return logits, DecoderState(layers, state.lengths + 1, state.beam_size)

    def _decode(
        self,
        x: Float[Tensor, "rows places size"],
        past: Layers | None,
        *,
        mask: Bool[Tensor, "#rows 1 #places keys"] | None,
        places: PositionIds,
    ) -> tuple[Float[Tensor, "rows places size"], Layers]:
        present = []
        for number, block in enumerate(self.blocks):
            x, seen = block(x, None if past is None else past[number], mask=mask, places=places)
            present.append(seen)
        return self.norm(x), tuple(present)


def _places_within(documents: Tokens) -> Tokens:
    """The place of each token in its document, from 0; documents are runs of equal numbers."""
    index = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return index - torch.where(begins, index, 0).cummax(dim=1).values
