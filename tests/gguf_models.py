"""Small random models of Llama's layout in GGUF files, by the package of llama.cpp."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
SYMBOLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.layers": "blk",
}


def random_model(family: str) -> Any:
    """Return a random model of transformers."""
    torch.manual_seed(3)
    config: Any = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[family]
    model: Any = {"llama": transformers.LlamaForCausalLM, "qwen2": transformers.Qwen2ForCausalLM}[family]
    built = model(config(**SIZES, vocab_size=256 + len(SYMBOLS), tie_word_embeddings=family == "llama"))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return built.eval()


def write_gguf(path: Path, model: Any, kind: Any = gguf.GGMLQuantizationType.F32) -> dict[str, np.ndarray]:
    """Write a model with matrices in a number format; return the dequantized tensors by the names of transformers."""
    config, family = model.config, model.config.model_type
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(500.0)
    config.rope_parameters["rope_theta"] = 500.0
    alphabet = sorted(ByteLevel.alphabet())
    tokens = [*SYMBOLS, *alphabet]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SYMBOLS) + [1] * len(alphabet))
    writer.add_token_merges([])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    found = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = tensor.numpy()
        theirs = name
        for before, after in _NAMES.items():
            theirs = theirs.replace(before, after)
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        part = theirs.split(".")[-2]
        if family == "llama" and part in heads:
            array = array.reshape(heads[part], 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        form = kind if array.ndim == 2 else gguf.GGMLQuantizationType.F32
        quantized = gguf.quantize(array, form)
        writer.add_tensor(theirs, quantized, raw_dtype=form)
        found[theirs] = gguf.dequantize(quantized, form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return found
