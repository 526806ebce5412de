"""Logits equal those of a random Hugging Face `BartForConditionalGeneration` with the same weights."""

from typing import Any

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from dragoman.models.config import EncoderDecoderConfig, LearnedConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.nn.attention import MultiHeadAttention
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_transformer
from tests.weight_copying import copy_same, randomized

SIZE, HEADS, HIDDEN, PLACES, VOCABULARY = 35, 5, 53, 31, 43
SOURCES = [[5, 11, 7, 13, 41, 3], [17, 3], [29, 31, 5, 3]]
TARGETS = [[19, 23, 37], [5, 7, 11, 13, 41, 4, 4], []]


def bart(activation: str) -> BartForConditionalGeneration:
    config = BartConfig(
        vocab_size=VOCABULARY,
        d_model=SIZE,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        activation_function=activation,
        max_position_embeddings=PLACES,
        pad_token_id=SYMBOLS.pad,
        bos_token_id=SYMBOLS.bos,
        eos_token_id=SYMBOLS.eos,
        decoder_start_token_id=SYMBOLS.bos,
        forced_eos_token_id=None,
    )
    model = randomized(BartForConditionalGeneration, config)
    with torch.no_grad():
        model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(3))
    return model


def ours(activation: str) -> EncoderDecoderTransformer:
    config = EncoderDecoderConfig(
        d_model=SIZE,
        num_heads=HEADS,
        d_ff=HIDDEN,
        encoder_layers=2,
        decoder_layers=3,
        activation=activation,
        norm_position="post",
        norm_embedding=True,
        scale_embedding=False,
        positions=LearnedConfig(max_length=PLACES, offset=2),
        dropout=NO_DROPOUT,
    )
    return random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


@torch.no_grad()
def copy_weights(partner: BartForConditionalGeneration, model: EncoderDecoderTransformer) -> None:
    encoder, decoder = partner.model.encoder, partner.model.decoder
    for theirs, embedding in ((encoder, model.source_embedding), (decoder, model.target_embedding)):
        copy_same(theirs.embed_tokens, embedding.tokens)
        embedding.positions.table.weight.copy_(theirs.embed_positions.weight)
        copy_same(theirs.layernorm_embedding, embedding.norm)
    model.unembedding.bias.copy_(partner.final_logits_bias[0])
    pairs = [*zip(encoder.layers, model.encoder, strict=True), *zip(decoder.layers, model.decoder, strict=True)]
    for theirs, block in pairs:
        copy_attention(theirs.self_attn, block.attention)
        copy_same(theirs.self_attn_layer_norm, block.attention_residual.norm)
        copy_same(theirs.fc1, block.feed_forward.inner)
        copy_same(theirs.fc2, block.feed_forward.outer)
        copy_same(theirs.final_layer_norm, block.feed_forward_residual.norm)
    for theirs, block in zip(decoder.layers, model.decoder, strict=True):
        copy_attention(theirs.encoder_attn, block.cross_attention)
        copy_same(theirs.encoder_attn_layer_norm, block.cross_attention_residual.norm)


def copy_attention(theirs: Any, own: MultiHeadAttention) -> None:
    copy_same(theirs.q_proj, own.query)
    copy_same(theirs.k_proj, own.key)
    copy_same(theirs.v_proj, own.value)
    copy_same(theirs.out_proj, own.output)


@pytest.mark.parametrize(("their_activation", "activation"), [("gelu", "gelu"), ("relu", "relu")])
@torch.no_grad()
def test_logits_equal_bart(their_activation: str, activation: str) -> None:
    partner, model = bart(their_activation), ours(activation)
    copy_weights(partner, model)
    source, lengths = rectangle(SOURCES)
    target, target_lengths = rectangle([[SYMBOLS.bos, *row] for row in TARGETS])
    real = torch.arange(target.shape[1]) < target_lengths[:, None]
    mask = (source != SYMBOLS.pad).long()
    theirs = partner(source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits
    torch.testing.assert_close(model(source, lengths, target)[real], theirs[real], atol=1e-4, rtol=1e-4)
    assert float(theirs[real].std()) > 0.5
