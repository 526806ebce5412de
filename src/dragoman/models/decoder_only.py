"""Decoder-only Transformer (Radford et al., 2018), a language model.

Training and inference share one pass: all positions in parallel with a causal mask, or one position of every hypothesis
with a key-value cache. In a search the prompt takes the role of the source: `encode` processes all of its tokens but
the last, which is the first token given to `step`.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import BeamTokens, Float, Lengths, SourceIds, StepLogits, Tokens
from dragoman.models.decoder_state import DecoderState, decoder_pass, decoder_step
from dragoman.nn.blocks import DecoderBlock
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.masks import document_mask


@final
class DecoderOnlyTransformer(nn.Module):
    """Decoder-only Transformer; implements `DecoderOnly`."""

    def __init__(
        self, *, embedding: TokenEmbedding, blocks: list[DecoderBlock], norm: nn.Module, unembedding: Unembedding
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks: Sequence[DecoderBlock] = nn.ModuleList(blocks)  # type: ignore[assignment]  # typed as a sequence
        self.norm = norm
        self.unembedding = unembedding

    @property
    def max_length(self) -> int | None:
        """Maximum sequence length, or None if unlimited."""
        return self.embedding.max_length

    def hidden(self, tokens: Tokens, documents: Tokens | None = None) -> Float[Tensor, "batch positions size"]:
        """Return the last hidden states of all positions.

        `documents` numbers the document of each token: tokens do not attend to other documents, and positions restart
        in each. Without it, a row is one document, padded at the end.
        """
        position_ids = torch.arange(tokens.shape[1], device=tokens.device)[None]
        mask = None
        if documents is not None:
            position_ids, mask = _positions_in_documents(documents), document_mask(documents)
        x = self.embedding(tokens, position_ids)
        x, _ = decoder_pass(self.blocks, x, None, mask=mask, position_ids=position_ids)
        return self.norm(x)

    def forward(self, tokens: Tokens, documents: Tokens | None = None) -> Float[Tensor, "batch positions vocabulary"]:
        """Return the logits of the token after each position."""
        return self.unembed(self.hidden(tokens, documents))

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        return self.unembedding(hidden)

    def encode(self, prompt: SourceIds, lengths: Lengths) -> DecoderState:
        """Return the state after all tokens of the prompts but the last; prompts have at least one token."""
        return self.read_prefixes(prompt[:, : int(lengths.max()) - 1], lengths - 1)

    def read_prefixes(self, tokens: SourceIds, lengths: Lengths) -> DecoderState:
        """Return the state after all tokens, of which each row has a number, padded at the end."""
        width = tokens.shape[1]
        position_ids = torch.arange(width, device=tokens.device)[None]
        x = self.embedding(tokens, position_ids)
        _, layers = decoder_pass(self.blocks, x, None, mask=None, position_ids=position_ids)
        caches = tuple(layer.shift(width - lengths) for layer in layers if isinstance(layer, KVCache))
        return DecoderState(caches, lengths, beam_size=1)

    def start(self, memory: DecoderState, *, beam_size: int) -> DecoderState:
        return memory.reorder(memory.lengths.new_zeros(len(memory.lengths), beam_size))

    def step(
        self,
        tokens: BeamTokens,
        memory: DecoderState,  # noqa: ARG002  # the state contains the prompt
        state: DecoderState,
    ) -> tuple[StepLogits, DecoderState]:
        x, state = decoder_step(self.embedding, self.blocks, tokens, state)
        return self.unembed(self.norm(x)[:, 0]).unflatten(0, tokens.shape), state


def _positions_in_documents(documents: Tokens) -> Tokens:
    """Return the position of each token in its document, a run of equal numbers."""
    index = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return index - torch.where(starts, index, 0).cummax(dim=1).values
