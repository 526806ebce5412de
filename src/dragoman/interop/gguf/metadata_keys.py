"""Keys of the metadata of GGUF files, with what the import does with each; tests compare them with the package gguf.

Keys of the network begin with the architecture, such as `llama.block_count`. llama.cpp reads the others for every
architecture. Source: `llama-model.cpp` and `llama-vocab.cpp` of llama.cpp.
"""

from typing import Final

from dragoman.interop.key_table import Computed, KeyTable, Only, Treatment, computed, no_effect

_NETWORK: Final[KeyTable] = {
    "block_count": Computed("`num_layers`"),
    "context_length": Computed("the context"),
    "embedding_length": Computed("`d_model`"),
    "feed_forward_length": Computed("`d_ff`"),
    "attention.head_count": Computed("`num_heads`"),
    "attention.head_count_kv": Computed("`num_kv_heads`"),
    "attention.key_length": Computed("`head_size`"),
    "attention.value_length": Computed("`head_size`, as `attention.key_length`"),
    "attention.layer_norm_rms_epsilon": Computed("`norm_epsilon`"),
    "rope.dimension_count": Computed("`head_size`, as `attention.key_length`"),
    "rope.freq_base": Computed("`positions.base`"),
    "rope.scaling.type": Computed("`positions.scaling`: `none` or `linear`, which is the default"),
    "rope.scaling.factor": Computed("`positions.scaling.factor`"),
    "rope.scale_linear": Computed("`positions.scaling.factor` of older files"),
    "expert_count": Only((0,), "a mixture of experts"),
    "expert_used_count": Only((0,), "a mixture of experts"),
    "attention.sliding_window": Only((0,), "a window, which llama.cpp reads in other architectures"),
    **no_effect("the table of tokens says it", ["vocab_size"]),
    **no_effect("linear scaling does not read it", ["rope.scaling.original_context_length", "rope.scaling.finetuned"]),
    **no_effect("it says how llama.cpp stores the weights", ["tensor_data_layout"]),
}
_TOKENIZER: Final[dict[str, Treatment]] = {
    f"tokenizer.{name}": treatment
    for name, treatment in {
        **computed({"chat_template": "the chat template"}),
        **no_effect("the default template is read", ["chat_templates"]),
        **no_effect("the table of tokens and the merges say the same", ["huggingface.json", "rwkv.world"]),
    }.items()
}
_GGML: Final[dict[str, Treatment]] = {
    f"tokenizer.ggml.{name}": treatment
    for name, treatment in {
        **computed(
            {
                "model": "the kind of tokenizer: byte-level BPE (`gpt2`)",
                "pre": "the way to split words",
                "tokens": "the vocabulary",
                "token_type": "special symbols, and words of the user",
                "merges": "the merges",
                "bos_token_id": "the begin symbol",
                "eos_token_id": "the end symbol",
                "eot_token_id": "a further end symbol",
                "padding_token_id": "the padding symbol",
                "add_bos_token": "whether texts begin with the begin symbol; the default of `llama-bpe` is true",
            }
        ),
        "add_eos_token": Only((False,), "an end symbol after each prompt"),
        "add_sep_token": Only((False,), "a separator after each prompt"),
        **no_effect("byte-level BPE does not read it", "scores add_space_prefix remove_extra_whitespaces"),
        **no_effect("byte-level BPE does not read it", "precompiled_charsmap token_type_count unknown_token_id"),
        **no_effect(
            "no prompt or output depends on it",
            "seperator_token_id separator_token_id mask_token_id cls_token_id eom_token_id prefix_token_id "
            "suffix_token_id middle_token_id fim_pre_token_id fim_suf_token_id fim_mid_token_id fim_pad_token_id "
            "fim_rep_token_id fim_sep_token_id hf_json",
        ),
    }.items()
}
_FILE: Final = ("general.", "quantize.", "split.")
"""Beginnings of keys that describe the file."""


def metadata_keys(architecture: str) -> KeyTable:
    """Return the keys of the network of an architecture, and of its tokenizer."""
    network = {f"{architecture}.{name}": treatment for name, treatment in _NETWORK.items()}
    return {**network, **_TOKENIZER, **_GGML}


def is_description(key: str) -> bool:
    """Return whether a key describes the file, such as its name, its license or its quantization."""
    return key.startswith(_FILE)
