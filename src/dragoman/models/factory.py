"""From settings to a Transformer: the parts list."""

import math
from typing import assert_never

import torch
from torch import nn

from dragoman.models.config import (
    AlibiConfig,
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    KeptHeads,
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
from dragoman.models.weights import build_tied_embeddings
from dragoman.nn.attention import AttentionPattern, FullAttention, MultiHeadAttention, PositionBias
from dragoman.nn.blocks import DecoderBlock, DecoderOnlyBlock, EncoderBlock, Residual
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
from dragoman.nn.scores import Score, ScoreConfig, build_score
from dragoman.nn.sparse import KeyHeads, build_pattern


def build_encoder_decoder(
    config: EncoderDecoderConfig, *, source_vocabulary: int, target_vocabulary: int
) -> EncoderDecoderTransformer:
    """A network with fresh weights, drawn from the ambient generator; raises ConfigError where sizes cannot be tied."""
    source, target, last = build_tied_embeddings(
        config.tie_embeddings,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        embedding_size=config.d_model,
        size=config.d_model,
    )
    around_source, around_target = _shared_bias(config, past_only=False), _shared_bias(config, past_only=True)
    model = EncoderDecoderTransformer(
        source_embedding=build_embedding(config, source, needs_trees=True),
        target_embedding=build_embedding(config, target),
        encoder=[
            build_encoder_block(config, config.attention.encoder, around_source, layer=layer)
            for layer in range(config.encoder_layers)
        ],
        decoder=[build_decoder_block(config, around_target, layer=layer) for layer in range(config.decoder_layers)],
        encoder_norm=_last_norm(config),
        decoder_norm=_last_norm(config),
        unembedding=Unembedding(weight=last.weight, bias=config.bias),
    )
    _initialise(model, model.unembedding)
    return model


def build_decoder_only(config: DecoderOnlyConfig, *, vocabulary: int) -> DecoderOnlyTransformer:
    """A decoder-only network with fresh weights, drawn from the ambient generator."""
    tokens = nn.Embedding(vocabulary, config.d_model)
    last = tokens if config.tie_embeddings else nn.Embedding(vocabulary, config.d_model)
    shared = _shared_bias(config, past_only=True)
    model = DecoderOnlyTransformer(
        embedding=build_embedding(config, tokens),
        blocks=[build_decoder_only_block(config, shared, layer=layer) for layer in range(config.num_layers)],
        norm=_last_norm(config),
        unembedding=Unembedding(weight=last.weight, bias=config.bias),
    )
    _initialise(model, model.unembedding)
    return model


def build_encoder_only(config: EncoderOnlyConfig, *, vocabulary: int) -> EncoderOnlyTransformer:
    """An encoder-only network with fresh weights; `vocabulary` counts the mask symbol too."""
    tokens = nn.Embedding(vocabulary, config.d_model)
    shared = _shared_bias(config, past_only=False)
    model = EncoderOnlyTransformer(
        embedding=build_embedding(config, tokens, segments=config.num_segments),
        blocks=[
            build_encoder_block(config, config.attention, shared, layer=layer) for layer in range(config.num_layers)
        ],
        norm=_last_norm(config),
        head=_masked_word_head(config),
        unembedding=Unembedding(weight=tokens.weight, bias=config.bias),
    )
    _initialise(model, model.unembedding)
    return model


def build_embedding(
    config: TransformerConfig, tokens: nn.Embedding, *, segments: int = 1, needs_trees: bool = False
) -> TokenEmbedding:
    concatenated = isinstance(config.positions, SinusoidalConfig | LearnedConfig) and (
        config.positions.join == "concatenate"
    )
    return TokenEmbedding(
        tokens=tokens,
        positions=build_positions(config),
        dropout=config.dropout.embedding,
        scaled=config.scale_embedding,
        project=nn.Linear(2 * config.d_model, config.d_model, bias=config.bias) if concatenated else None,
        depth=_depth_positions(config) if needs_trees else None,
        segments=nn.Embedding(segments, config.d_model) if segments > 1 else None,
        norm=build_norm(config.norm, config.d_model) if config.norm_embedding else None,
    )


def build_positions(config: TransformerConfig) -> SinusoidalPositions | LearnedPositions | None:
    """Absolute positions, or None where they are relative or there are none."""
    match config.positions:
        case SinusoidalConfig() | TreeConfig():
            return SinusoidalPositions(size=config.d_model)
        case LearnedConfig(max_length=length):
            return LearnedPositions(max_length=length, size=config.d_model)
        case ShawConfig() | T5BiasConfig() | RotaryConfig() | AlibiConfig() | NoPositionsConfig():
            return None
        case _:
            assert_never(config.positions)


def build_encoder_block(
    config: TransformerConfig, attention: SelfAttentionConfig, shared: PositionBias | None, *, layer: int
) -> EncoderBlock:
    return EncoderBlock(
        attention=build_self_attention(
            config,
            attention,
            shared,
            build_pattern(
                attention.pattern, causal=False, layer=layer, kept=_kept_keys(config, attention.kept_heads, layer)
            ),
            layer=layer,
            needs_trees=True,
        ),
        feed_forward=build_feed_forward(config),
        build_residual=lambda: build_residual(config),
    )


def build_decoder_only_block(config: DecoderOnlyConfig, shared: PositionBias | None, *, layer: int) -> DecoderOnlyBlock:
    return DecoderOnlyBlock(
        attention=build_self_attention(
            config, config.attention, shared, build_pattern(config.attention.pattern, causal=True), layer=layer
        ),
        feed_forward=build_feed_forward(config),
        build_residual=lambda: build_residual(config),
    )


def build_decoder_block(config: EncoderDecoderConfig, shared: PositionBias | None, *, layer: int) -> DecoderBlock:
    attention = config.attention.decoder
    return DecoderBlock(
        attention=build_self_attention(
            config, attention, shared, build_pattern(attention.pattern, causal=True), layer=layer
        ),
        cross_attention=build_cross_attention(config, layer=layer),
        feed_forward=build_feed_forward(config),
        build_residual=lambda: build_residual(config),
    )


def build_self_attention(
    config: TransformerConfig,
    attention: SelfAttentionConfig,
    shared: PositionBias | None,
    pattern: AttentionPattern,
    *,
    layer: int = 0,
    needs_trees: bool = False,
) -> MultiHeadAttention:
    """Attention of a sequence to itself; `shared` are the positions that all layers have in common."""
    kept = _kept(attention.kept_heads, layer)
    score = _score(config, attention.score, kept)
    return MultiHeadAttention(
        d_model=config.d_model,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads or config.num_heads,
        bias=config.bias,
        dropout=config.dropout.attention,
        score=score,
        pattern=pattern,
        rotary=RotaryPositions(base=config.positions.base) if isinstance(config.positions, RotaryConfig) else None,
        position_bias=_own_bias(config, score) if shared is None else shared,
        tree=_tree_relations(config, score) if needs_trees else None,
        kept_heads=kept,
    )


def build_cross_attention(config: EncoderDecoderConfig, *, layer: int) -> MultiHeadAttention:
    kept = _kept(config.attention.cross.kept_heads, layer)
    return MultiHeadAttention(
        d_model=config.d_model,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads or config.num_heads,
        bias=config.bias,
        dropout=config.dropout.attention,
        score=_score(config, config.attention.cross.score, kept),
        pattern=FullAttention(causal=False),
        kept_heads=kept,
    )


def build_feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        d_model=config.d_model,
        d_ff=config.d_ff,
        activation=config.activation,
        gated=config.gated,
        bias=config.bias,
        dropout=config.dropout.feed_forward,
    )


def build_residual(config: TransformerConfig) -> Residual:
    norm = build_norm(config.norm, config.d_model)
    return Residual(norm, position=config.norm_position, dropout=config.dropout.residual)


def _kept(heads: KeptHeads | None, layer: int) -> tuple[int, ...] | None:
    """What pruning left of a layer; none where nothing was pruned."""
    return None if heads is None else heads[layer]


def _kept_keys(config: TransformerConfig, heads: KeptHeads | None, layer: int) -> KeyHeads | None:
    """The heads of keys that pruning left of a layer, and how many there were."""
    if heads is None:
        return None
    group = config.heads_per_group
    return sorted({head // group for head in heads[layer]}), config.num_heads // group


def _score(config: TransformerConfig, score: ScoreConfig, kept: tuple[int, ...] | None) -> Score:
    head_size = config.d_model // config.num_heads
    heads = config.num_heads if kept is None else len(kept)
    key_heads = heads * (config.num_kv_heads or config.num_heads) // config.num_heads
    return build_score(score, query_size=head_size, key_size=head_size, heads=heads, key_heads=key_heads)


def _shared_bias(config: TransformerConfig, *, past_only: bool) -> PositionBias | None:
    """Positions that all layers of a stack share, if they are of such a kind."""
    match config.positions:
        case T5BiasConfig(num_buckets=buckets, max_distance=furthest):
            return T5Bias(num_buckets=buckets, max_distance=furthest, num_heads=config.num_heads, causal=past_only)
        case AlibiConfig():
            return AlibiBias(num_heads=config.num_heads)
        case _:
            return None


def _own_bias(config: TransformerConfig, score: Score) -> PositionBias | None:
    """Positions that each layer has for itself, if they are of such a kind."""
    if not isinstance(config.positions, ShawConfig):
        return None
    assert score.scale is not None, "relative positions are refused beside scores that are no inner product"
    reach, values = config.positions.max_distance, config.positions.values
    return ShawPositions(
        max_distance=reach, head_size=config.d_model // config.num_heads, scale=score.scale, adds_values=values
    )


def _depth_positions(config: TransformerConfig) -> DepthEmbedding | None:
    """What joins the depth of a word to its place, if positions are of such a kind."""
    if not isinstance(config.positions, TreeConfig) or not config.positions.absolute:
        return None
    return DepthEmbedding(size=config.d_model, bias=config.bias)


def _tree_relations(config: TransformerConfig, score: Score) -> TreeBias | None:
    """What tells a layer how words stand to each other in a tree, if positions are of such a kind."""
    if not isinstance(config.positions, TreeConfig) or not config.positions.relative:
        return None
    assert score.scale is not None, "relations in a tree are refused beside scores that are no inner product"
    return TreeBias(
        max_distance=config.positions.max_distance, head_size=config.d_model // config.num_heads, scale=score.scale
    )


def _last_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm leaves the residual stream itself unnormalised; post-norm already ends in a norm."""
    return build_norm(config.norm, config.d_model) if config.norm_position == "pre" else nn.Identity()


def _masked_word_head(config: EncoderOnlyConfig) -> MaskedLMTransform | None:
    if not config.mlm_transform:
        return None
    return MaskedLMTransform(
        linear=nn.Linear(config.d_model, config.d_model, bias=config.bias),
        activation=config.activation,
        norm=build_norm(config.norm, config.d_model),
    )


@torch.no_grad()
def _initialise(model: nn.Module, unembedding: Unembedding) -> None:
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
    nn.init.normal_(unembedding.weight, std=1 / math.sqrt(unembedding.weight.shape[1]))
