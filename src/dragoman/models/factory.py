"""From settings to a Transformer: the parts list."""

import math
from typing import assert_never

import torch
from torch import nn

from dragoman.models.config import (
    AlibiConfig,
    BucketedConfig,
    CausalConfig,
    EncoderConfig,
    Kept,
    LearnedConfig,
    NoPositionsConfig,
    RelativeConfig,
    RotaryConfig,
    SelfAttentionConfig,
    SinusoidalConfig,
    StackConfig,
    StructuralConfig,
    TransformerConfig,
)
from dragoman.models.decoder_only import CausalTransformer
from dragoman.models.encoder_decoder import Seq2SeqTransformer
from dragoman.models.encoder_only import EncoderTransformer, MaskedWordHead
from dragoman.models.tied_embeddings import word_tables
from dragoman.nn.attention import Full, MultiHeadAttention, Pattern
from dragoman.nn.blocks import CausalBlock, DecoderBlock, EncoderBlock, Residual
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.norms import build_norm
from dragoman.nn.positions.alibi import Alibi
from dragoman.nn.positions.distance_bias import DistanceBias
from dragoman.nn.positions.learned import LearnedPositions
from dragoman.nn.positions.rotary import Rotary
from dragoman.nn.positions.shaw import RelativePositions
from dragoman.nn.positions.sinusoidal import Sinusoids
from dragoman.nn.positions.t5_bias import BucketedPositions
from dragoman.nn.positions.tree import DepthPositions, TreeRelations
from dragoman.nn.scores import Score, ScoreConfig, build_score
from dragoman.nn.sparse import KeyHeads, build_pattern


def build_seq2seq(config: TransformerConfig, *, source_vocabulary: int, target_vocabulary: int) -> Seq2SeqTransformer:
    """A network with fresh weights, drawn from the ambient generator; raises ConfigError where sizes cannot be tied."""
    source, target, last = word_tables(
        config.tie,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        embedding_size=config.size,
        size=config.size,
    )
    around_source, around_target = _shared_bias(config, past_only=False), _shared_bias(config, past_only=True)
    model = Seq2SeqTransformer(
        source_embedding=build_embedding(config, source, reads_trees=True),
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


def build_causal(config: CausalConfig, *, vocabulary: int) -> CausalTransformer:
    """A decoder-only network with fresh weights, drawn from the ambient generator."""
    tokens = nn.Embedding(vocabulary, config.size)
    last = tokens if config.tie else nn.Embedding(vocabulary, config.size)
    shared = _shared_bias(config, past_only=True)
    model = CausalTransformer(
        embedding=build_embedding(config, tokens),
        blocks=[build_causal_block(config, shared, layer=layer) for layer in range(config.layers)],
        norm=_last_norm(config),
        unembedding=Unembedding(weight=last.weight, bias=config.bias),
    )
    _initialise(model, model.unembedding)
    return model


def build_encoder(config: EncoderConfig, *, vocabulary: int) -> EncoderTransformer:
    """An encoder-only network with fresh weights; `vocabulary` counts the mask symbol too."""
    tokens = nn.Embedding(vocabulary, config.size)
    shared = _shared_bias(config, past_only=False)
    model = EncoderTransformer(
        embedding=build_embedding(config, tokens, segments=config.segments),
        blocks=[build_encoder_block(config, config.attention, shared, layer=layer) for layer in range(config.layers)],
        norm=_last_norm(config),
        head=_masked_word_head(config),
        unembedding=Unembedding(weight=tokens.weight, bias=config.bias),
    )
    _initialise(model, model.unembedding)
    return model


def build_embedding(
    config: StackConfig, tokens: nn.Embedding, *, segments: int = 1, reads_trees: bool = False
) -> TokenEmbedding:
    concatenated = isinstance(config.positions, SinusoidalConfig | LearnedConfig) and (
        config.positions.join == "concatenate"
    )
    return TokenEmbedding(
        tokens=tokens,
        positions=build_positions(config),
        dropout=config.dropout.embedding,
        scaled=config.scale_embedding,
        project=nn.Linear(2 * config.size, config.size, bias=config.bias) if concatenated else None,
        depth=_depth_positions(config) if reads_trees else None,
        segments=nn.Embedding(segments, config.size) if segments > 1 else None,
        norm=build_norm(config.norm, config.size) if config.norm_embedding else None,
    )


def build_positions(config: StackConfig) -> Sinusoids | LearnedPositions | None:
    """Absolute positions, or None where they are relative or there are none."""
    match config.positions:
        case SinusoidalConfig() | StructuralConfig():
            return Sinusoids(size=config.size)
        case LearnedConfig(length=length):
            return LearnedPositions(length=length, size=config.size)
        case RelativeConfig() | BucketedConfig() | RotaryConfig() | AlibiConfig() | NoPositionsConfig():
            return None
        case _:
            assert_never(config.positions)


def build_encoder_block(
    config: StackConfig, attention: SelfAttentionConfig, shared: DistanceBias | None, *, layer: int
) -> EncoderBlock:
    return EncoderBlock(
        attention=build_self_attention(
            config,
            attention,
            shared,
            build_pattern(attention.pattern, causal=False, layer=layer, kept=_kept_keys(config, attention.kept, layer)),
            layer=layer,
            reads_trees=True,
        ),
        feed_forward=build_feed_forward(config),
        around=lambda: build_residual(config),
    )


def build_causal_block(config: CausalConfig, shared: DistanceBias | None, *, layer: int) -> CausalBlock:
    return CausalBlock(
        attention=build_self_attention(
            config, config.attention, shared, build_pattern(config.attention.pattern, causal=True), layer=layer
        ),
        feed_forward=build_feed_forward(config),
        around=lambda: build_residual(config),
    )


def build_decoder_block(config: TransformerConfig, shared: DistanceBias | None, *, layer: int) -> DecoderBlock:
    attention = config.attention.decoder
    return DecoderBlock(
        attention=build_self_attention(
            config, attention, shared, build_pattern(attention.pattern, causal=True), layer=layer
        ),
        cross_attention=build_cross_attention(config, layer=layer),
        feed_forward=build_feed_forward(config),
        around=lambda: build_residual(config),
    )


def build_self_attention(
    config: StackConfig,
    attention: SelfAttentionConfig,
    shared: DistanceBias | None,
    pattern: Pattern,
    *,
    layer: int = 0,
    reads_trees: bool = False,
) -> MultiHeadAttention:
    """Attention of a sequence to itself; `shared` are the positions that all layers have in common."""
    kept = _kept(attention.kept, layer)
    score = _score(config, attention.score, kept)
    return MultiHeadAttention(
        size=config.size,
        heads=config.heads,
        key_value_heads=config.key_value_heads or config.heads,
        bias=config.bias,
        dropout=config.dropout.attention,
        score=score,
        pattern=pattern,
        rotary=Rotary(base=config.positions.base) if isinstance(config.positions, RotaryConfig) else None,
        distances=_own_bias(config, score) if shared is None else shared,
        tree=_tree_relations(config, score) if reads_trees else None,
        kept=kept,
    )


def build_cross_attention(config: TransformerConfig, *, layer: int) -> MultiHeadAttention:
    kept = _kept(config.attention.cross.kept, layer)
    return MultiHeadAttention(
        size=config.size,
        heads=config.heads,
        key_value_heads=config.key_value_heads or config.heads,
        bias=config.bias,
        dropout=config.dropout.attention,
        score=_score(config, config.attention.cross.score, kept),
        pattern=Full(causal=False),
        kept=kept,
    )


def build_feed_forward(config: StackConfig) -> FeedForward:
    return FeedForward(
        size=config.size,
        hidden_size=config.feed_forward,
        activation=config.activation,
        gated=config.gated,
        bias=config.bias,
        dropout=config.dropout.feed_forward,
    )


def build_residual(config: StackConfig) -> Residual:
    norm = build_norm(config.norm, config.size)
    return Residual(norm, position=config.norm_position, dropout=config.dropout.residual)


def _kept(heads: Kept | None, layer: int) -> tuple[int, ...] | None:
    """What pruning left of a layer; none where nothing was pruned."""
    return None if heads is None else heads[layer]


def _kept_keys(config: StackConfig, heads: Kept | None, layer: int) -> KeyHeads | None:
    """The heads of keys that pruning left of a layer, and how many there were."""
    if heads is None:
        return None
    group = config.heads_of_a_group
    return sorted({head // group for head in heads[layer]}), config.heads // group


def _score(config: StackConfig, score: ScoreConfig, kept: tuple[int, ...] | None) -> Score:
    head_size = config.size // config.heads
    heads = config.heads if kept is None else len(kept)
    key_heads = heads * (config.key_value_heads or config.heads) // config.heads
    return build_score(score, query_size=head_size, key_size=head_size, heads=heads, key_heads=key_heads)


def _shared_bias(config: StackConfig, *, past_only: bool) -> DistanceBias | None:
    """Positions that all layers of a stack share, if they are of such a kind."""
    match config.positions:
        case BucketedConfig(buckets=buckets, furthest=furthest):
            return BucketedPositions(buckets=buckets, furthest=furthest, heads=config.heads, past_only=past_only)
        case AlibiConfig():
            return Alibi(heads=config.heads)
        case _:
            return None


def _own_bias(config: StackConfig, score: Score) -> DistanceBias | None:
    """Positions that each layer has for itself, if they are of such a kind."""
    if not isinstance(config.positions, RelativeConfig):
        return None
    assert score.scale is not None, "relative positions are refused beside scores that are no inner product"
    reach, values = config.positions.reach, config.positions.values
    return RelativePositions(reach=reach, head_size=config.size // config.heads, scale=score.scale, adds_values=values)


def _depth_positions(config: StackConfig) -> DepthPositions | None:
    """What joins the depth of a word to its place, if positions are of such a kind."""
    if not isinstance(config.positions, StructuralConfig) or not config.positions.absolute:
        return None
    return DepthPositions(size=config.size, bias=config.bias)


def _tree_relations(config: StackConfig, score: Score) -> TreeRelations | None:
    """What tells a layer how words stand to each other in a tree, if positions are of such a kind."""
    if not isinstance(config.positions, StructuralConfig) or not config.positions.relative:
        return None
    assert score.scale is not None, "relations in a tree are refused beside scores that are no inner product"
    return TreeRelations(reach=config.positions.reach, head_size=config.size // config.heads, scale=score.scale)


def _last_norm(config: StackConfig) -> nn.Module:
    """Pre-norm leaves the residual stream itself unnormalised; post-norm already ends in a norm."""
    return build_norm(config.norm, config.size) if config.norm_position == "pre" else nn.Identity()


def _masked_word_head(config: EncoderConfig) -> MaskedWordHead | None:
    if not config.predict_hidden:
        return None
    return MaskedWordHead(
        linear=nn.Linear(config.size, config.size, bias=config.bias),
        activation=config.activation,
        norm=build_norm(config.norm, config.size),
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
