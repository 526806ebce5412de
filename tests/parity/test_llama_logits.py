"""Logits equal those of random Hugging Face `LlamaForCausalLM` and `Qwen2ForCausalLM` with the same weights.

The models have rotary positions, RMSNorm, gated feed-forward layers, grouped-query attention and untied embeddings.
"""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from dragoman.models.config import DecoderOnlyConfig, RotaryConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.nn.positions.rotary import LinearScalingConfig, Llama3ScalingConfig, RotaryScaling, rotation_rates
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_causal
from tests.weight_copying import copy_same, randomized

SIZE, HEADS, HIDDEN, VOCABULARY, BASE = 36, 6, 53, 43, 500.0
TEXTS = [[2, 19, 23, 37], [2, 5, 7, 11, 13, 41, 4, 4, 9, 9, 31], [2]]
SETTINGS = {"norm": "rms", "activation": "silu", "gated": True, "bias": False, "scale_embedding": False}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def llama(num_kv_heads: int, **options: Any) -> LlamaForCausalLM:
    return randomized(LlamaForCausalLM, LlamaConfig(**{**their_options(num_kv_heads), **options}))


def their_options(num_kv_heads: int) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": SIZE,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": 3,
        "num_attention_heads": HEADS,
        "num_key_value_heads": num_kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": BASE},
        "tie_word_embeddings": False,
        "bos_token_id": SYMBOLS.bos,
        "eos_token_id": SYMBOLS.eos,
        "pad_token_id": SYMBOLS.pad,
    }


def ours(num_kv_heads: int, **options: Any) -> DecoderOnlyTransformer:
    defaults = {
        "d_model": SIZE,
        "num_heads": HEADS,
        "num_kv_heads": num_kv_heads,
        "d_ff": HIDDEN,
        "num_layers": 3,
        "positions": RotaryConfig(base=BASE),
        "tie_embeddings": False,
        "dropout": NO_DROPOUT,
    }
    return random_causal(DecoderOnlyConfig(**{**SETTINGS, **defaults, **options}), vocabulary=VOCABULARY)


@torch.no_grad()
def copy_weights(partner: Any, model: DecoderOnlyTransformer) -> None:
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


def check_logits(partner: Any, model: DecoderOnlyTransformer) -> None:
    with torch.no_grad():
        copy_weights(partner, model)
        tokens, lengths = rectangle(TEXTS)
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        reference = partner(tokens, attention_mask=real.long(), use_cache=False).logits
        torch.testing.assert_close(model(tokens)[real], reference[real], atol=1e-4, rtol=1e-4)
    assert float(reference[real].std()) > 0.5


@pytest.mark.parametrize("num_kv_heads", [6, 2, 1])
def test_logits_equal_llama(num_kv_heads: int) -> None:
    check_logits(llama(num_kv_heads), ours(num_kv_heads))


def test_head_size_and_epsilon_equal_llama() -> None:
    partner = llama(2, head_dim=10, rms_norm_eps=0.01)
    check_logits(partner, ours(2, head_size=10, norm_epsilon=0.01))


@pytest.mark.parametrize(
    ("parameters", "scaling"),
    [
        ({"rope_type": "linear", "factor": 4.0}, LinearScalingConfig(factor=4.0)),
        ({"rope_type": "llama3", **LLAMA3}, Llama3ScalingConfig(factor=8.0, original_length=64)),
    ],
)
def test_scaled_rotation_equals_llama(parameters: dict[str, Any], scaling: RotaryScaling) -> None:
    partner = llama(2, rope_parameters={**parameters, "rope_theta": BASE})
    rates = rotation_rates(3, base=BASE, scaling=scaling)
    torch.testing.assert_close(rates, partner.model.rotary_emb.inv_freq)
    assert not torch.allclose(rates, rotation_rates(3, base=BASE))
    check_logits(partner, ours(2, positions=RotaryConfig(base=BASE, scaling=scaling)))


def test_logits_equal_qwen2() -> None:
    partner = randomized(Qwen2ForCausalLM, Qwen2Config(**their_options(2)))
    check_logits(partner, ours(2, qkv_bias=True))
