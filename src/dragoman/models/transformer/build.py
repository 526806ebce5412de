"""From settings to a Transformer: the parts list."""

import math
from typing import assert_never

from torch import nn

from dragoman.errors import ConfigError
from dragoman.models.transformer.config import LearnedConfig, SinusoidalConfig, TransformerConfig
from dragoman.models.transformer.seq2seq import Seq2SeqTransformer
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.blocks import DecoderBlock, EncoderBlock, Residual
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.feedforward import FeedForward
from dragoman.nn.norms import build_norm
from dragoman.nn.positions.learned import LearnedPositions
from dragoman.nn.positions.sinusoidal import Sinusoids


def build_seq2seq(config: TransformerConfig, *, source_vocabulary: int, target_vocabulary: int) -> Seq2SeqTransformer:
    """A network with fresh weights, drawn from the ambient generator; raises ConfigError where sizes cannot be tied."""
    source, target, last = _embeddings(config, source_vocabulary, target_vocabulary)
    model = Seq2SeqTransformer(
        source_embedding=TokenEmbedding(
            tokens=source, positions=build_positions(config), dropout=config.dropout.embedding
        ),
        target_embedding=TokenEmbedding(
            tokens=target, positions=build_positions(config), dropout=config.dropout.embedding
        ),
        encoder=[build_encoder_block(config) for _ in range(config.encoder_layers)],
        decoder=[build_decoder_block(config) for _ in range(config.decoder_layers)],
        encoder_norm=_last_norm(config),
        decoder_norm=_last_norm(config),
        unembedding=Unembedding(weight=last.weight, bias=config.bias),
    )
    _initialise(model)
    return model


def build_encoder_block(config: TransformerConfig) -> EncoderBlock:
    return EncoderBlock(
        attention=build_attention(config),
        feed_forward=build_feed_forward(config),
        around=lambda: build_residual(config),
    )


def build_decoder_block(config: TransformerConfig) -> DecoderBlock:
    return DecoderBlock(
        attention=build_attention(config),
        cross_attention=build_attention(config),
        feed_forward=build_feed_forward(config),
        around=lambda: build_residual(config),
    )


def build_attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        size=config.size,
        heads=config.heads,
        key_value_heads=config.key_value_heads or config.heads,
        bias=config.bias,
        dropout=config.dropout.attention,
    )


def build_feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        size=config.size,
        hidden_size=config.feed_forward,
        activation=config.activation,
        gated=config.gated,
        bias=config.bias,
        dropout=config.dropout.feed_forward,
    )


def build_residual(config: TransformerConfig) -> Residual:
    norm = build_norm(config.norm, config.size)
    return Residual(norm, position=config.norm_position, dropout=config.dropout.residual)


def build_positions(config: TransformerConfig) -> Sinusoids | LearnedPositions:
    match config.positions:
        case SinusoidalConfig():
            return Sinusoids(size=config.size)
        case LearnedConfig(length=length):
            return LearnedPositions(length=length, size=config.size)
        case _:
            assert_never(config.positions)


def _last_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm leaves the residual stream itself unnormalised; post-norm already ends in a norm."""
    return build_norm(config.norm, config.size) if config.norm_position == "pre" else nn.Identity()


def _embeddings(
    config: TransformerConfig, source_vocabulary: int, target_vocabulary: int
) -> tuple[nn.Embedding, nn.Embedding, nn.Embedding]:
    """The embeddings of source and target and the one whose weight unembeds."""
    source = nn.Embedding(source_vocabulary, config.size)
    match config.tie:
        case "all":
            if source_vocabulary != target_vocabulary:
                raise ConfigError(
                    f"model.tie = all needs one vocabulary for both sides, but they hold {source_vocabulary} and "
                    f"{target_vocabulary} entries; set tokenizer.shared=true or model.tie=target"
                )
            return source, source, source
        case "target":
            target = nn.Embedding(target_vocabulary, config.size)
            return source, target, target
        case "none":
            target = nn.Embedding(target_vocabulary, config.size)
            return source, target, nn.Embedding(target_vocabulary, config.size)
        case _:
            assert_never(config.tie)


def _initialise(model: Seq2SeqTransformer) -> None:
    r"""Embeddings from $N(0, 1/d)$, so that times $\sqrt d$ they have unit variance; maps by Glorot and Bengio (2010).

    Queries, keys and values are drawn as the one wide map that they stand for, which makes them smaller by $\sqrt 2$.
    """
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1 / math.sqrt(module.embedding_dim))
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for projection in (module.query, module.key, module.value):
                nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
    nn.init.normal_(model.unembedding.weight, std=1 / math.sqrt(model.unembedding.weight.shape[1]))
