"""Logits equal those of a random Hugging Face `LlamaForCausalLM` with the same weights.

The model has rotary positions, RMSNorm, gated feed-forward layers, grouped-query attention and untied embeddings.
"""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dragoman.models.config import DecoderOnlyConfig, RotaryConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_causal
from tests.weight_copying import copy_same, randomized

SIZE, HEADS, HIDDEN, VOCABULARY, BASE = 36, 6, 53, 43, 500.0
TEXTS = [[2, 19, 23, 37], [2, 5, 7, 11, 13, 41, 4, 4, 9, 9, 31], [2]]


def llama(num_kv_heads: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=SIZE,
        intermediate_size=HIDDEN,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        num_key_value_heads=num_kv_heads,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": BASE},
        tie_word_embeddings=False,
        bos_token_id=SYMBOLS.bos,
        eos_token_id=SYMBOLS.eos,
        pad_token_id=SYMBOLS.pad,
    )
    return randomized(LlamaForCausalLM, config)


def ours(num_kv_heads: int) -> DecoderOnlyTransformer:
    config = DecoderOnlyConfig(
        d_model=SIZE,
        num_heads=HEADS,
        num_kv_heads=num_kv_heads,
        d_ff=HIDDEN,
        num_layers=3,
        activation="silu",
        gated=True,
        norm="rms",
        bias=False,
        scale_embedding=False,
        positions=RotaryConfig(base=BASE),
        tie_embeddings=False,
        dropout=NO_DROPOUT,
    )
    return random_causal(config, vocabulary=VOCABULARY)


@torch.no_grad()
def copy_weights(partner: LlamaForCausalLM, model: DecoderOnlyTransformer) -> None:
    copy_same(partner.model.embed_tokens, model.embedding.tokens)
    model.norm.weight.copy_(partner.model.norm.weight)
    model.unembedding.weight.copy_(partner.lm_head.weight)
    for reference, block in zip(partner.model.layers, model.blocks, strict=True):
        for map_, own in (
            (reference.self_attn.q_proj, block.attention.query),
            (reference.self_attn.k_proj, block.attention.key),
            (reference.self_attn.v_proj, block.attention.value),
            (reference.self_attn.o_proj, block.attention.output),
            (reference.mlp.gate_proj, block.feed_forward.inner),
            (reference.mlp.up_proj, block.feed_forward.gate),
            (reference.mlp.down_proj, block.feed_forward.outer),
        ):
            copy_same(map_, own)
        block.attention_residual.norm.weight.copy_(reference.input_layernorm.weight)
        block.feed_forward_residual.norm.weight.copy_(reference.post_attention_layernorm.weight)


@pytest.mark.parametrize("num_kv_heads", [6, 2, 1])
@torch.no_grad()
def test_logits_equal_llama(num_kv_heads: int) -> None:
    partner, model = llama(num_kv_heads), ours(num_kv_heads)
    copy_weights(partner, model)
    tokens, lengths = rectangle(TEXTS)
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    reference = partner(tokens, attention_mask=real.long(), use_cache=False).logits
    torch.testing.assert_close(model(tokens)[real], reference[real], atol=1e-4, rtol=1e-4)
    assert float(reference[real].std()) > 0.5
