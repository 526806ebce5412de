"""Logits equal those of a random Hugging Face `T5ForConditionalGeneration` with the same weights.

T5 does not scale scores or embeddings, its layers share distance buckets, and its heads have a size of their own. With
tied embeddings it divides hidden states by the root of `d_model`.
"""

from typing import Any

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from dragoman.models.config import (
    CrossAttentionConfig,
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    SelfAttentionConfig,
    T5BiasConfig,
)
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.attention_score_functions import DotConfig
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.positions.t5_bias import relative_position_bucket
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_transformer
from tests.weight_copying import copy_same, randomized

SIZE, HEADS, HEAD_SIZE, HIDDEN, VOCABULARY, BUCKETS, MAX_DISTANCE = 34, 5, 11, 53, 43, 8, 11
SOURCES = [[5, 11, 7, 13, 41, 8, 9, 4, 4, 17, 19, 23, 29, 31, 37, 3], [17, 3], [29, 31, 5, 3]]
TARGETS = [[19, 23, 37], [5, 7, 11, 13, 41, 4, 4, 6, 6, 8, 9, 21, 22, 30], []]


def t5(feed_forward: str) -> T5ForConditionalGeneration:
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=SIZE,
        d_kv=HEAD_SIZE,
        d_ff=HIDDEN,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=HEADS,
        relative_attention_num_buckets=BUCKETS,
        relative_attention_max_distance=MAX_DISTANCE,
        feed_forward_proj=feed_forward,
        tie_word_embeddings=True,
        pad_token_id=SYMBOLS.pad,
        eos_token_id=SYMBOLS.eos,
        decoder_start_token_id=SYMBOLS.bos,
    )
    return randomized(T5ForConditionalGeneration, config)


def ours(activation: str, *, gated: bool) -> EncoderDecoderTransformer:
    plain = SelfAttentionConfig(score=DotConfig())
    config = EncoderDecoderConfig(
        d_model=SIZE,
        num_heads=HEADS,
        head_size=HEAD_SIZE,
        d_ff=HIDDEN,
        encoder_layers=2,
        decoder_layers=3,
        activation=activation,
        gated=gated,
        norm="rms",
        bias=False,
        scale_embedding=False,
        scale_output=True,
        positions=T5BiasConfig(num_buckets=BUCKETS, max_distance=MAX_DISTANCE),
        attention=EncoderDecoderAttentionConfig(
            encoder=plain, decoder=plain, cross=CrossAttentionConfig(score=DotConfig())
        ),
        dropout=NO_DROPOUT,
    )
    return random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


@torch.no_grad()
def copy_weights(partner: T5ForConditionalGeneration, model: EncoderDecoderTransformer) -> None:
    copy_same(partner.shared, model.source_embedding.tokens)
    stacks = (
        (partner.encoder, model.encoder, model.encoder_norm),
        (partner.decoder, model.decoder, model.decoder_norm),
    )
    for theirs, blocks, norm in stacks:
        norm.weight.copy_(theirs.final_layer_norm.weight)
        blocks[0].attention.position_bias.table.copy_(
            theirs.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        )
        for their_block, block in zip(theirs.block, blocks, strict=True):
            copy_attention(their_block.layer[0].SelfAttention, block.attention)
            copy_norm(their_block.layer[0], block.attention_residual.norm)
            copy_feed_forward(their_block.layer[-1].DenseReluDense, block.feed_forward)
            copy_norm(their_block.layer[-1], block.feed_forward_residual.norm)
    for their_block, block in zip(partner.decoder.block, model.decoder, strict=True):
        copy_attention(their_block.layer[1].EncDecAttention, block.cross_attention)
        copy_norm(their_block.layer[1], block.cross_attention_residual.norm)


def copy_attention(theirs: Any, own: MultiHeadAttention) -> None:
    for name, map_ in (("q", own.query), ("k", own.key), ("v", own.value), ("o", own.output)):
        copy_same(getattr(theirs, name), map_)


def copy_norm(theirs: Any, own: torch.nn.RMSNorm) -> None:
    own.weight.copy_(theirs.layer_norm.weight)


def copy_feed_forward(theirs: Any, own: FeedForward) -> None:
    copy_same(theirs.wi_0 if own.gate is not None else theirs.wi, own.inner)
    if own.gate is not None:
        copy_same(theirs.wi_1, own.gate)
    copy_same(theirs.wo, own.outer)


@pytest.mark.parametrize(
    ("feed_forward", "activation", "gated"), [("relu", "relu", False), ("gated-gelu", "gelu_tanh", True)]
)
@torch.no_grad()
def test_logits_equal_t5(feed_forward: str, activation: str, gated: bool) -> None:
    partner, model = t5(feed_forward), ours(activation, gated=gated)
    assert partner.lm_head.weight is partner.shared.weight
    copy_weights(partner, model)
    source, lengths = rectangle(SOURCES)
    target, target_lengths = rectangle([[SYMBOLS.bos, *row] for row in TARGETS])
    real = torch.arange(target.shape[1]) < target_lengths[:, None]
    mask = (source != SYMBOLS.pad).long()
    theirs = partner(source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits
    torch.testing.assert_close(model(source, lengths, target)[real], theirs[real], atol=1e-4, rtol=1e-4)
    assert float(theirs[real].std()) > 0.3


@pytest.mark.parametrize("past_only", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 11), (32, 128), (12, 1009)])
def test_buckets_equal_t5(buckets: int, max_distance: int, past_only: bool) -> None:
    away = torch.arange(-2003, 2004)
    attention = t5("relu").encoder.block[0].layer[0].SelfAttention
    theirs = attention._relative_position_bucket(
        away, bidirectional=not past_only, num_buckets=buckets, max_distance=max_distance
    )
    assert torch.equal(
        relative_position_bucket(away, num_buckets=buckets, max_distance=max_distance, causal=past_only), theirs
    )
