"""Encoder-decoder Transformer (Vaswani et al., 2017).

Training and decoding share one decoder pass: all target positions in parallel with a causal mask, or one position of
every hypothesis with the state of its prefix: a key-value cache, or the cell of an SSRU.
"""

from collections.abc import Iterator, Sequence
from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import BeamTokens, Float, Int, Lengths, SourceFeatures, SourceIds, StepLogits, TargetIds
from dragoman.errors import DataError
from dragoman.models.decoder_state import DecoderState, SourceMemory, decoder_pass, decoder_step
from dragoman.models.protocols import source_arguments
from dragoman.nn.attention import MultiHeadAttention, RelationIds
from dragoman.nn.blocks import DecoderBlock, EncoderBlock, Hidden, max_sequence_length
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.masks import padding_mask
from dragoman.nn.positions.tree import token_depths, token_relations


@final
class EncoderDecoderTransformer(nn.Module):
    """Encoder-decoder Transformer; implements `EncoderDecoder`."""

    source_eos = True
    """If false, the end symbol of a source that is not empty is hidden like padding."""

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
        output_scale: float = 1.0,
    ) -> None:
        """Assemble a model; `output_scale` multiplies the hidden states before the output projection (T5)."""
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder: Sequence[EncoderBlock] = nn.ModuleList(encoder)  # type: ignore[assignment]  # typed as a sequence
        self.decoder: Sequence[DecoderBlock] = nn.ModuleList(decoder)  # type: ignore[assignment]
        self.encoder_norm = encoder_norm
        self.decoder_norm = decoder_norm
        self.unembedding = unembedding
        self.output_scale = output_scale

    @property
    def max_length(self) -> int | None:
        """Maximum length of sources and targets, or None if unlimited."""
        return max_sequence_length(self.target_embedding, self.encoder)

    @property
    def needs_source_features(self) -> bool:
        """True if the encoder has tree positions, which require the dependency heads of each source."""
        return self.source_embedding.depth is not None or self._has_relations

    def encode(
        self, source: SourceIds, lengths: Lengths, source_features: SourceFeatures | None = None
    ) -> SourceMemory:
        position_ids = torch.arange(source.shape[1], device=source.device)[None]
        lengths = lengths if self.source_eos else (lengths - 1).clamp(min=1)
        mask = padding_mask(lengths, source.shape[1])
        depths, relations = self._tree_inputs(source_features)
        x = self.source_embedding(source, position_ids, depths=depths)
        for block in self.encoder:
            x = block(x, mask, position_ids, relations)
        x = self.encoder_norm(x)
        return SourceMemory(tuple(attention.project_keys_values(x) for attention in self.cross_attentions()), lengths)

    def hidden(
        self,
        source: SourceIds,
        source_lengths: Lengths,
        target: TargetIds,
        source_features: SourceFeatures | None = None,
    ) -> Float[Tensor, "batch target size"]:
        memory = self.encode(source, source_lengths, source_features)
        position_ids = torch.arange(target.shape[1], device=target.device)[None]
        x = self.target_embedding(target, position_ids)
        # The causal mask already hides padding at the end of the target.
        x, _ = decoder_pass(self.decoder, x, None, mask=None, position_ids=position_ids, memory=memory)
        return self._output_states(x)

    def forward(
        self,
        source: SourceIds,
        source_lengths: Lengths,
        target: TargetIds,
        source_features: SourceFeatures | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Return the logits of the token after each position of `target`, which starts with BOS."""
        return self.unembed(self.hidden(source, source_lengths, target, source_features))

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        return self.unembedding(hidden)

    def start(self, memory: SourceMemory, *, beam_size: int) -> DecoderState:
        layers = tuple(block.start(len(memory.lengths) * beam_size) for block in self.decoder)
        return DecoderState(layers, torch.zeros_like(memory.lengths), beam_size)

    def step(self, tokens: BeamTokens, memory: SourceMemory, state: DecoderState) -> tuple[StepLogits, DecoderState]:
        x, state = decoder_step(self.target_embedding, self.decoder, tokens, state, memory)
        return self.unembed(self._output_states(x)[:, 0]).unflatten(0, tokens.shape), state

    def cross_attentions(self) -> Iterator[MultiHeadAttention]:
        """Yield the cross-attention of each decoder layer."""
        for block in self.decoder:
            assert block.cross_attention is not None, "the decoder of an encoder-decoder model has cross-attention"
            yield block.cross_attention

    def _output_states(self, x: Hidden) -> Hidden:
        """Return the hidden states as the output projection takes them."""
        x = self.decoder_norm(x)
        return x if self.output_scale == 1.0 else x * self.output_scale

    @property
    def _has_relations(self) -> bool:
        return self.encoder[0].attention.tree is not None

    def _tree_inputs(
        self, features: SourceFeatures | None
    ) -> tuple[Int[Tensor, "batch source"] | None, RelationIds | None]:
        """Return token depths for the embedding and token relations for attention."""
        if not self.needs_source_features:
            source_arguments(self, features)  # refuses features without effect
            return None, None
        if features is None:
            raise DataError("this model has tree positions. Give the dependency heads of each source too.")
        depths = None if self.source_embedding.depth is None else token_depths(features)
        return depths, token_relations(features) if self._has_relations else None
