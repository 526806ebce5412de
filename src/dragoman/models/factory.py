"""Factory of Transformers: builds each part of a model from its configuration."""

from typing import Any, assert_never

from torch import Tensor, nn

from dragoman.models.config import (
    AlibiConfig,
    CrossAttentionConfig,
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    LearnedConfig,
    NoPositionsConfig,
    RotaryConfig,
    SelfAttentionConfig,
    ShawConfig,
    SinusoidalConfig,
    T5BiasConfig,
    TransformerConfig,
    TreeConfig,
)
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.encoder_only import EncoderOnlyTransformer, MaskedLMTransform
from dragoman.models.special_symbols import BOS
from dragoman.models.weight_initialization import build_tied_embeddings, initialize_weights, keep_zero_row
from dragoman.nn.attention import AttentionPattern, FullAttention, Heads, MultiHeadAttention, PositionBias
from dragoman.nn.attention_score_functions import Score, build_score
from dragoman.nn.blocks import DecoderBlock, EncoderBlock, Residual
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.norms import build_norm
from dragoman.nn.positions.alibi import AlibiBias
from dragoman.nn.positions.learned import LearnedPositions
from dragoman.nn.positions.rotary import RotaryPositions
from dragoman.nn.positions.shaw import ShawPositions
from dragoman.nn.positions.sinusoidal import SinusoidalPositions
from dragoman.nn.positions.t5_bias import T5Bias
from dragoman.nn.positions.tree import DepthEmbedding, TreeBias
from dragoman.nn.recurrent.ssru import SSRU
from dragoman.nn.sparse.factory import build_pattern


def build_encoder_decoder(
    config: EncoderDecoderConfig, *, source_vocabulary: int, target_vocabulary: int
) -> EncoderDecoderTransformer:
    """Build a model with new weights from the ambient generator; raises ConfigError if embeddings cannot be tied."""
    source, target, output = build_tied_embeddings(
        config.tie_embeddings,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        embedding_size=config.d_model,
        size=config.d_model,
    )
    source_bias, target_bias = _shared_bias(config, causal=False), _shared_bias(config, causal=True)
    model = EncoderDecoderTransformer(
        source_embedding=_embedding(config, source, is_source=True),
        target_embedding=_embedding(config, target),
        encoder=[
            _encoder_block(config, config.attention.encoder, source_bias, layer=layer)
            for layer in range(config.encoder_layers)
        ],
        decoder=[
            _decoder_block(
                config, _decoder_layer(config, target_bias, layer=layer), config.attention.cross, layer=layer
            )
            for layer in range(config.decoder_layers)
        ],
        encoder_norm=_final_norm(config),
        decoder_norm=_final_norm(config),
        unembedding=_unembedding(config, output.weight),
        output_scale=config.d_model**-0.5 if config.scale_output else 1.0,
    )
    model.source_eos = config.source_eos
    initialize_weights(model, model.unembedding.weight)
    if config.start_embedding == "zero":
        keep_zero_row(target.weight, BOS)
    return model


def build_decoder_only(config: DecoderOnlyConfig, *, vocabulary: int) -> DecoderOnlyTransformer:
    """Build a model with new weights from the ambient generator."""
    tokens = nn.Embedding(vocabulary, config.d_model)
    output = tokens if config.tie_embeddings else nn.Embedding(vocabulary, config.d_model)
    shared = _shared_bias(config, causal=True)
    model = DecoderOnlyTransformer(
        embedding=_embedding(config, tokens),
        blocks=[
            _decoder_block(config, _masked_attention(config, config.attention, shared, layer=layer), None, layer=layer)
            for layer in range(config.num_layers)
        ],
        norm=_final_norm(config),
        unembedding=_unembedding(config, output.weight),
    )
    initialize_weights(model, model.unembedding.weight)
    return model


def build_encoder_only(config: EncoderOnlyConfig, *, vocabulary: int) -> EncoderOnlyTransformer:
    """Build a model with new weights from the ambient generator; `vocabulary` includes the mask symbol."""
    tokens, d_model = nn.Embedding(vocabulary, config.d_model), config.d_model
    shared = _shared_bias(config, causal=False)
    embedding = _embedding(config, tokens, segments=config.num_segments)
    blocks = [_encoder_block(config, config.attention, shared, layer=layer) for layer in range(config.num_layers)]
    norm, head = _final_norm(config), None
    if config.mlm_transform:
        linear = nn.Linear(d_model, d_model, bias=config.bias)
        head = MaskedLMTransform(linear=linear, activation=config.activation, norm=_norm(config))
    model = EncoderOnlyTransformer(
        embedding=embedding,
        blocks=blocks,
        norm=norm,
        head=head,
        unembedding=_unembedding(config, tokens.weight),
    )
    initialize_weights(model, model.unembedding.weight)
    return model


def build_positions(config: TransformerConfig) -> SinusoidalPositions | LearnedPositions | None:
    """Build absolute positions; return None for relative ones and without positions."""
    match config.positions:
        case SinusoidalConfig(order=order, inclusive=inclusive, offset=offset):
            return SinusoidalPositions(size=config.d_model, order=order, inclusive=inclusive, offset=offset)
        case TreeConfig():
            return SinusoidalPositions(size=config.d_model)
        case LearnedConfig(max_length=max_length, offset=offset):
            return LearnedPositions(max_length=max_length, size=config.d_model, offset=offset)
        case ShawConfig() | T5BiasConfig() | RotaryConfig() | AlibiConfig() | NoPositionsConfig():
            return None
        case _:
            assert_never(config.positions)


def build_attention(
    config: TransformerConfig,
    attention: SelfAttentionConfig | CrossAttentionConfig,
    pattern: AttentionPattern,
    *,
    shared: PositionBias | None = None,
    layer: int = 0,
    is_source: bool = False,
) -> MultiHeadAttention:
    """Build attention; self-attention has relative positions, `shared` by all layers or of the layer."""
    heads, size = _heads(config, attention, layer), config.features_per_head
    score = build_score(attention.score, query_size=size, key_size=size, heads=heads.queries, key_heads=heads.keys)
    positions: RotaryPositions | PositionBias | TreeBias | None = shared
    if isinstance(attention, SelfAttentionConfig):
        if isinstance(config.positions, RotaryConfig):
            positions = RotaryPositions(base=config.positions.base, scaling=config.positions.scaling)
        elif isinstance(config.positions, ShawConfig):
            positions = ShawPositions(**_relative(config, score), adds_values=config.positions.values)
        elif isinstance(config.positions, TreeConfig) and config.positions.relative and is_source:
            positions = TreeBias(**_relative(config, score))
    return MultiHeadAttention(
        d_model=config.d_model,
        heads=heads,
        bias=config.bias,
        qkv_bias=config.qkv_bias,
        dropout=config.dropout.attention,
        score=score,
        pattern=pattern,
        positions=positions,
    )


def _embedding(
    config: TransformerConfig, tokens: nn.Embedding, *, segments: int = 1, is_source: bool = False
) -> TokenEmbedding:
    concatenates = (
        isinstance(config.positions, SinusoidalConfig | LearnedConfig) and config.positions.join == "concatenate"
    )
    has_depth = is_source and isinstance(config.positions, TreeConfig) and config.positions.absolute
    return TokenEmbedding(
        tokens=tokens,
        positions=build_positions(config),
        dropout=config.dropout.embedding,
        scaled=config.scale_embedding,
        project=nn.Linear(2 * config.d_model, config.d_model, bias=config.bias) if concatenates else None,
        depth=DepthEmbedding(size=config.d_model, bias=config.bias) if has_depth else None,
        segments=nn.Embedding(segments, config.d_model) if segments > 1 else None,
        norm=_norm(config) if config.norm_embedding else None,
    )


def _encoder_block(
    config: TransformerConfig, attention: SelfAttentionConfig, shared: PositionBias | None, *, layer: int
) -> EncoderBlock:
    pattern = build_pattern(attention.pattern, causal=False, layer=layer, heads=_heads(config, attention, layer))
    return EncoderBlock(
        attention=build_attention(config, attention, pattern, shared=shared, layer=layer, is_source=True),
        feed_forward=_feed_forward(config),
        build_residual=lambda: _residual(config),
    )


def _decoder_layer(
    config: EncoderDecoderConfig, shared: PositionBias | None, *, layer: int
) -> MultiHeadAttention | SSRU:
    match config.decoder_layer:
        case "self_attention":
            return _masked_attention(config, config.attention.decoder, shared, layer=layer)
        case "ssru":
            return SSRU(size=config.d_model)
        case _:
            assert_never(config.decoder_layer)


def _masked_attention(
    config: TransformerConfig, attention: SelfAttentionConfig, shared: PositionBias | None, *, layer: int
) -> MultiHeadAttention:
    pattern = build_pattern(attention.pattern, causal=True)
    return build_attention(config, attention, pattern, shared=shared, layer=layer)


def _decoder_block(
    config: TransformerConfig, attention: MultiHeadAttention | SSRU, cross: CrossAttentionConfig | None, *, layer: int
) -> DecoderBlock:
    full = FullAttention(causal=False)
    return DecoderBlock(
        attention=attention,
        cross_attention=None if cross is None else build_attention(config, cross, full, layer=layer),
        feed_forward=_feed_forward(config),
        build_residual=lambda: _residual(config),
    )


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        d_model=config.d_model,
        d_ff=config.d_ff,
        activation=config.activation,
        gated=config.gated,
        bias=config.bias,
        dropout=config.dropout.feed_forward,
    )


def _residual(config: TransformerConfig) -> Residual:
    return Residual(_norm(config), position=config.norm_position, dropout=config.dropout.residual)


def _heads(config: TransformerConfig, attention: SelfAttentionConfig | CrossAttentionConfig, layer: int) -> Heads:
    kept = None if attention.kept_heads is None else attention.kept_heads[layer]
    return Heads(config.num_heads, config.heads_per_group, kept, config.features_per_head)


def _shared_bias(config: TransformerConfig, *, causal: bool) -> PositionBias | None:
    """Build the position bias that all layers of a stack share, or None."""
    match config.positions:
        case T5BiasConfig(num_buckets=num_buckets, max_distance=max_distance):
            return T5Bias(num_buckets=num_buckets, max_distance=max_distance, num_heads=config.num_heads, causal=causal)
        case AlibiConfig():
            return AlibiBias(num_heads=config.num_heads)
        case _:
            return None


def _relative(config: TransformerConfig, score: Score) -> dict[str, Any]:
    """Return the sizes of relative positions and the scale of their score."""
    assert isinstance(config.positions, ShawConfig | TreeConfig)
    assert score.scale is not None, "validation rejects other scores"
    sizes = {"max_distance": config.positions.max_distance, "head_size": config.features_per_head}
    return {**sizes, "scale": score.scale}


def _norm(config: TransformerConfig) -> nn.Module:
    return build_norm(config.norm, config.d_model, epsilon=config.norm_epsilon)


def _final_norm(config: TransformerConfig) -> nn.Module:
    """Build the norm after the last block; post-norm blocks already end in a norm."""
    return _norm(config) if config.norm_position == "pre" else nn.Identity()


def _unembedding(config: TransformerConfig, weight: Tensor) -> Unembedding:
    return Unembedding(weight=weight, bias=config.bias if config.output_bias is None else config.output_bias)
