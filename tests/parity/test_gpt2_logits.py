"""Logits equal those of a random Hugging Face `GPT2LMHeadModel` with the same weights."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from dragoman.models.config import DecoderOnlyConfig, LearnedConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_causal
from tests.weight_copying import copy_linear, copy_same, randomized

SIZE, HEADS, HIDDEN, PLACES, VOCABULARY = 35, 5, 53, 31, 43
TEXTS = [[2, 19, 23, 37], [2, 5, 7, 11, 13, 41, 4, 4], [2]]


def gpt2() -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=PLACES,
        n_embd=SIZE,
        n_layer=3,
        n_head=HEADS,
        n_inner=HIDDEN,
        activation_function="gelu_new",
        bos_token_id=SYMBOLS.bos,
        eos_token_id=SYMBOLS.eos,
        pad_token_id=SYMBOLS.pad,
    )
    return randomized(GPT2LMHeadModel, config)


def ours() -> DecoderOnlyTransformer:
    config = DecoderOnlyConfig(
        d_model=SIZE,
        num_heads=HEADS,
        d_ff=HIDDEN,
        num_layers=3,
        activation="gelu_tanh",
        scale_embedding=False,
        positions=LearnedConfig(max_length=PLACES),
        dropout=NO_DROPOUT,
    )
    return random_causal(config, vocabulary=VOCABULARY)


@torch.no_grad()
def copy_weights(partner: GPT2LMHeadModel, model: DecoderOnlyTransformer) -> None:
    """Copy the weights. GPT-2 stores one row per input, and queries, keys and values as one matrix."""
    copy_same(partner.transformer.wte, model.embedding.tokens)
    copy_same(partner.transformer.wpe, model.embedding.positions.table)
    copy_same(partner.transformer.ln_f, model.norm)
    model.unembedding.bias.zero_()
    for reference, block in zip(partner.transformer.h, model.blocks, strict=True):
        weights = reference.attn.c_attn.weight.t().chunk(3)
        biases = reference.attn.c_attn.bias.chunk(3)
        own = block.attention
        for weight, bias, map_ in zip(weights, biases, (own.query, own.key, own.value), strict=True):
            copy_linear(weight, bias, map_)
        for conv, map_ in (
            (reference.attn.c_proj, own.output),
            (reference.mlp.c_fc, block.feed_forward.inner),
            (reference.mlp.c_proj, block.feed_forward.outer),
        ):
            copy_linear(conv.weight.t(), conv.bias, map_)
        copy_same(reference.ln_1, block.attention_residual.norm)
        copy_same(reference.ln_2, block.feed_forward_residual.norm)


@torch.no_grad()
def test_logits_equal_gpt2() -> None:
    partner, model = gpt2(), ours()
    copy_weights(partner, model)
    tokens, lengths = rectangle(TEXTS)
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    reference = partner(tokens, attention_mask=real.long(), use_cache=False).logits
    torch.testing.assert_close(model(tokens)[real], reference[real], atol=1e-4, rtol=1e-4)
    assert float(reference[real].std()) > 0.5
