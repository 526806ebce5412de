"""Logits equal those of a random Hugging Face `MarianMTModel` with the same weights.."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

from dragoman.models.config import EncoderDecoderConfig, SinusoidalConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn.attention import MultiHeadAttention
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_transformer

SIZE, HEADS, HIDDEN, PLACES, SOURCE_VOCABULARY, TARGET_VOCABULARY = 35, 5, 53, 31, 43, 47
SOURCES = [[5, 11, 7, 13, 41, 3], [17, 3], [29, 31, 5, 3]]
TARGETS = [[19, 23, 37], [5, 7, 11, 13, 41, 4, 4], []]


def marian(activation: str, *, shared: bool) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=SOURCE_VOCABULARY,
        decoder_vocab_size=SOURCE_VOCABULARY if shared else TARGET_VOCABULARY,
        share_encoder_decoder_embeddings=shared,
        d_model=SIZE,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        activation_function=activation,
        max_position_embeddings=PLACES,
        scale_embedding=True,
        pad_token_id=SYMBOLS.pad,
        eos_token_id=SYMBOLS.eos,
        decoder_start_token_id=SYMBOLS.bos,
        forced_eos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = MarianMTModel(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "embed_positions" not in name:
                    parameter.add_(0.2 * torch.randn_like(parameter))
            model.final_logits_bias.normal_()
    return model


def ours(activation: str, *, shared: bool) -> EncoderDecoderTransformer:
    config = EncoderDecoderConfig(
        d_model=SIZE,
        num_heads=HEADS,
        d_ff=HIDDEN,
        encoder_layers=2,
        decoder_layers=3,
        activation=activation,
        norm_position="post",
        positions=SinusoidalConfig(order="halves"),
        tie_embeddings="all" if shared else "target",
        dropout=NO_DROPOUT,
    )
    target = SOURCE_VOCABULARY if shared else TARGET_VOCABULARY
    return random_transformer(config, source_vocabulary=SOURCE_VOCABULARY, target_vocabulary=target)


@torch.no_grad()
def copy_weights(partner: MarianMTModel, model: EncoderDecoderTransformer) -> None:
    encoder, decoder = partner.model.encoder, partner.model.decoder
    for theirs, embedding in ((encoder, model.source_embedding), (decoder, model.target_embedding)):
        copy_same(theirs.embed_tokens, embedding.tokens)
    model.unembedding.bias.copy_(partner.final_logits_bias[0])
    for theirs, block in (
        *zip(encoder.layers, model.encoder, strict=True),
        *zip(decoder.layers, model.decoder, strict=True),
    ):
        copy_attention(theirs.self_attn, block.attention)
        copy_same(theirs.self_attn_layer_norm, block.attention_residual.norm)
        copy_same(theirs.fc1, block.feed_forward.inner)
        copy_same(theirs.fc2, block.feed_forward.outer)
        copy_same(theirs.final_layer_norm, block.feed_forward_residual.norm)
    for theirs, block in zip(decoder.layers, model.decoder, strict=True):
        copy_attention(theirs.encoder_attn, block.cross_attention)
        copy_same(theirs.encoder_attn_layer_norm, block.cross_attention_residual.norm)


def copy_same(theirs: nn.Module, own: nn.Module) -> None:
    own.load_state_dict(theirs.state_dict())


def copy_attention(theirs: Any, own: MultiHeadAttention) -> None:
    copy_same(theirs.q_proj, own.query)
    copy_same(theirs.k_proj, own.key)
    copy_same(theirs.v_proj, own.value)
    copy_same(theirs.out_proj, own.output)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("their_activation", "activation"), [("relu", "relu"), ("swish", "silu"), ("gelu", "gelu")])
@torch.no_grad()
def test_logits_equal_marian(their_activation: str, activation: str, shared: bool) -> None:
    partner, model = marian(their_activation, shared=shared), ours(activation, shared=shared)
    assert partner.lm_head.weight is partner.model.decoder.embed_tokens.weight
    copy_weights(partner, model)
    source, lengths = rectangle(SOURCES)
    target, target_lengths = rectangle([[SYMBOLS.bos, *row] for row in TARGETS])
    real = torch.arange(target.shape[1]) < target_lengths[:, None]
    theirs = partner(
        source,
        attention_mask=(source != SYMBOLS.pad).long(),
        decoder_input_ids=target,
        decoder_attention_mask=real.long(),
        use_cache=False,
    ).logits
    torch.testing.assert_close(model(source, lengths, target)[real], theirs[real], atol=1e-4, rtol=1e-4)
    assert float(theirs[real].std()) > 0.5
