"""Encoder-only Transformer (Devlin et al., 2019), trained by predicting masked tokens."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Lengths, Tokens
from dragoman.nn.blocks import EncoderBlock, max_sequence_length
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.feed_forward import ActivationName, activation_function
from dragoman.nn.masks import padding_mask


@final
class MaskedLMTransform(nn.Module):
    r"""$\mathrm{norm}(f(W h))$ before masked tokens are predicted (Devlin et al., 2019)."""

    def __init__(self, *, linear: nn.Linear, activation: ActivationName, norm: nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.activation: ActivationName = activation
        self.norm = norm

    def forward(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions size"]:
        return self.norm(activation_function(self.linear(hidden), self.activation))


@final
class EncoderOnlyTransformer(nn.Module):
    """Encoder-only Transformer with a masked-language-model head."""

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        blocks: list[EncoderBlock],
        norm: nn.Module,
        head: MaskedLMTransform | None,
        unembedding: Unembedding,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks: Sequence[EncoderBlock] = nn.ModuleList(blocks)  # type: ignore[assignment]  # typed as a sequence
        self.norm = norm
        self.head = head
        self.unembedding = unembedding

    @property
    def max_length(self) -> int | None:
        """Maximum sequence length, or None if unlimited."""
        return max_sequence_length(self.embedding, self.blocks)

    def hidden(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch positions size"]:
        """Return the last hidden states; rows are padded at the end."""
        position_ids = torch.arange(tokens.shape[1], device=tokens.device)[None]
        mask = padding_mask(lengths, tokens.shape[1])
        x = self.embedding(tokens, position_ids, segments)
        for block in self.blocks:
            x = block(x, mask, position_ids)
        return self.norm(x)

    def mlm_hidden(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions size"]:
        """Transform hidden states for the prediction of masked tokens."""
        return hidden if self.head is None else self.head(hidden)

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        """Return the logits of the tokens at these positions."""
        return self.unembedding(self.mlm_hidden(hidden))

    def forward(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch positions vocabulary"]:
        """Return the logits of the tokens at all positions."""
        return self.unembed(self.hidden(tokens, lengths, segments))
