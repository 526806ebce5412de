"""Keys of `config.json` by family, with what the import does with each; tests compare them with transformers.

A key of the settings of `generate`, which older files keep here, counts where there is no `generation_config.json`.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.interop.huggingface.generation_keys import ID_KEYS, SAMPLING_KEYS, SEARCH_KEYS
from dragoman.interop.key_table import Alias, Computed, KeyTable, Only, Treatment, computed, no_effect

_NEVER: Final = Only((), "a part that dragoman does not compute")
_COMMON: Final[KeyTable] = {
    "model_type": Computed("the family"),
    "vocab_size": Computed("the size of the vocabulary"),
    "pruned_heads": Only(({},), "attention heads that the weights lack"),
    "quantization_config": Only((), "a number format of weights that dragoman does not read"),
    "per_layer_config": Only((), "layers that differ from each other"),
    **no_effect(
        "it names the model, its files or its classes",
        "_name_or_path _commit_hash name_or_path architectures transformers_version tokenizer_class finetuning_task",
    ),
    **no_effect(
        "weights are computed in the format that you choose", "torch_dtype dtype use_bfloat16 torchscript output_past"
    ),
    **no_effect(
        "it chooses how transformers computes, or which intermediate results it returns",
        "use_cache return_dict use_return_dict output_attentions output_hidden_states attn_implementation "
        "_attn_implementation _attn_implementation_autoset experts_implementation gradient_checkpointing "
        "chunk_size_feed_forward tf_legacy_loss tie_last_hidden_states pretraining_tp save_step is_encoder_decoder",
    ),
    **no_effect(
        "it is used in training",
        "initializer_range initializer_factor init_std encoder_layerdrop decoder_layerdrop classifier_dropout "
        "classif_dropout",
    ),
    **no_effect("it describes a head, which the weights determine", "label2id num_labels _num_labels"),
    **no_effect("no part of the network reads it", "max_source_positions sep_token_id n_positions num_hidden_layers"),
    **no_effect("it names the tasks of a head, which a model without one has not", "id2label problem_type"),
    **no_effect(
        "it repeats a setting of the tokenizer, or of a pipeline of transformers", "prefix task_specific_params"
    ),
}
_GENERATES: Final[KeyTable] = no_effect(
    "it is a setting of `generate`, which `generation_config.json` replaces", SEARCH_KEYS
)
_FORCED: Final = {"force_bos_token_to_be_generated": Computed("`forced_bos_token_id` in files without the key")}
_SYMBOLS: Final[KeyTable] = {**_GENERATES, **{key: SEARCH_KEYS[key] for key in ID_KEYS}, **_FORCED}
_PROMPT_SYMBOLS: Final[KeyTable] = {**_GENERATES, **{key: SAMPLING_KEYS[key] for key in ID_KEYS}, **_FORCED}
_DECODER_PARTS: Final[KeyTable] = {
    "is_decoder": Only((False,), "an encoder with the mask of a decoder"),
    "add_cross_attention": Only((False,), "cross-attention in a model without an encoder"),
}
_UNREAD_BIASES: Final = no_effect("transformers does not read it in this family", "attention_bias mlp_bias qkv_bias")


def _bart(*, pre_norm: bool, norm_embedding: bool, learned: bool) -> dict[str, Treatment]:
    """Return the keys of a family of BART's layout, whose norms and positions do not change."""
    return {
        **_COMMON,
        **_SYMBOLS,
        **_DECODER_PARTS,
        **computed(
            {
                "d_model": "`d_model`",
                "encoder_layers": "`encoder_layers`",
                "decoder_layers": "`decoder_layers`",
                "encoder_attention_heads": "`num_heads`",
                "decoder_attention_heads": "`num_heads`, as many as in the encoder",
                "encoder_ffn_dim": "`d_ff`",
                "decoder_ffn_dim": "`d_ff`, as large as in the encoder",
                "activation_function": "`activation`",
                "dropout": "`dropout`, in a later training",
                "attention_dropout": "`dropout.attention`, in a later training",
                "activation_dropout": "`dropout.feed_forward`, in a later training",
                "max_position_embeddings": "the longest text, and the table of learned positions",
                "scale_embedding": "`scale_embedding`",
                "tie_word_embeddings": "`tie_embeddings`, with the weights",
            }
        ),
        "hidden_size": Alias("d_model"),
        "num_hidden_layers": Alias("encoder_layers"),
        "num_attention_heads": Alias("encoder_attention_heads"),
        "normalize_before": Only((pre_norm,), "the place of the norms, which the family determines"),
        "add_final_layer_norm": Only((pre_norm,), "a norm after the last layer, which the family determines"),
        "normalize_embedding": Only((norm_embedding,), "a norm of the embedding, which the family determines"),
        "static_position_embeddings": Only((not learned,), "the kind of positions, which the family determines"),
        "add_bias_logits": Only((False,), "an output bias, which the weights determine"),
        **no_effect("transformers does not read it", "extra_pos_embeddings"),
        **no_effect("transformers reads it in other families", "share_encoder_decoder_embeddings decoder_vocab_size"),
    }


_MARIAN: Final[KeyTable] = {
    **_bart(pre_norm=False, norm_embedding=False, learned=False),
    "share_encoder_decoder_embeddings": Computed("whether source and target share a vocabulary"),
    "decoder_vocab_size": Computed("the size of the target vocabulary"),
}
_T5: Final[KeyTable] = {
    **_COMMON,
    **_SYMBOLS,
    "is_decoder": _DECODER_PARTS["is_decoder"],
    **computed(
        {
            "d_model": "`d_model`",
            "d_kv": "`head_size`",
            "d_ff": "`d_ff`",
            "num_layers": "`encoder_layers`",
            "num_decoder_layers": "`decoder_layers`",
            "num_heads": "`num_heads`",
            "relative_attention_num_buckets": "`positions.num_buckets`",
            "relative_attention_max_distance": "`positions.max_distance`",
            "dropout_rate": "`dropout`, in a later training",
            "layer_norm_epsilon": "`norm_epsilon`",
            "feed_forward_proj": "`activation` and `gated`",
            "dense_act_fn": "`activation`; it takes precedence over `feed_forward_proj`",
            "is_gated_act": "`gated`; it takes precedence over `feed_forward_proj`",
            "tie_word_embeddings": "`scale_output`; the weights determine `tie_embeddings`",
            "scale_decoder_outputs": "`scale_output`",
            "max_position_embeddings": "the longest text",
            "task_specific_params": "languages, and the words before a source",
        }
    ),
    "hidden_size": Alias("d_model"),
    "num_hidden_layers": Alias("num_layers"),
    "num_attention_heads": Alias("num_heads"),
    "head_dim": Alias("d_kv"),
}
_MT5: Final[KeyTable] = {
    **_T5,
    **no_effect("mT5 never scales its outputs, and the weights determine `tie_embeddings`", "tie_word_embeddings"),
    **no_effect("mT5 never scales its outputs", "scale_decoder_outputs"),
    **no_effect("transformers does not read it", "task_specific_params"),
}
_HEADS: Final = computed({"id2label": "the labels of a classifier", "problem_type": "the kind of a head"})
_ENCODER: Final[KeyTable] = {
    **_COMMON,
    **_GENERATES,
    **_HEADS,
    **no_effect("an encoder does not generate", ID_KEYS),
    **no_effect("the pooler of sentence pairs is not used", "pooler_fc_size pooler_num_attention_heads"),
    **no_effect("the pooler of sentence pairs is not used", "pooler_num_fc_layers pooler_size_per_head pooler_type"),
    **no_effect("no part of the network reads it", "mask_token_id cls_token_id directionality"),
    "tie_word_embeddings": Only((True,), "an output projection with weights of its own"),
}
_BERT: Final[KeyTable] = {
    **_ENCODER,
    **_DECODER_PARTS,
    **computed(
        {
            "hidden_size": "`d_model`",
            "num_attention_heads": "`num_heads`",
            "intermediate_size": "`d_ff`",
            "num_hidden_layers": "`num_layers`",
            "hidden_act": "`activation`",
            "layer_norm_eps": "`norm_epsilon`",
            "hidden_dropout_prob": "`dropout`, in a later training",
            "attention_probs_dropout_prob": "`dropout.attention`, in a later training",
            "max_position_embeddings": "the longest text, and the table of learned positions",
            "type_vocab_size": "`num_segments`",
        }
    ),
    "position_embedding_type": Only(("absolute",), "the kind of positions"),
}
_ROBERTA: Final[KeyTable] = {**_BERT, "pad_token_id": Computed("the first position, which follows it")}
_DISTILBERT: Final[KeyTable] = {
    **_ENCODER,
    **computed(
        {
            "dim": "`d_model`",
            "n_heads": "`num_heads`",
            "hidden_dim": "`d_ff`",
            "n_layers": "`num_layers`",
            "activation": "`activation`",
            "dropout": "`dropout`, in a later training",
            "attention_dropout": "`dropout.attention`, in a later training",
            "max_position_embeddings": "the longest text, and the table of learned positions",
        }
    ),
    "hidden_size": Alias("dim"),
    "num_attention_heads": Alias("n_heads"),
    "num_hidden_layers": Alias("n_layers"),
    **no_effect("the weights hold the table of positions", "sinusoidal_pos_embds"),
    **no_effect("it is used in training", "qa_dropout seq_classif_dropout"),
    **no_effect("weights are tied", "tie_weights_"),
}
_GPT2: Final[KeyTable] = {
    **_COMMON,
    **_PROMPT_SYMBOLS,
    **computed(
        {
            "n_embd": "`d_model`",
            "n_head": "`num_heads`",
            "n_inner": "`d_ff`",
            "n_layer": "`num_layers`",
            "n_positions": "the table of learned positions, and the context",
            "activation_function": "`activation`",
            "layer_norm_epsilon": "`norm_epsilon`",
            "tie_word_embeddings": "`tie_embeddings`, with the weights",
            "embd_pdrop": "`dropout.embedding`, in a later training",
            "resid_pdrop": "`dropout.residual`, in a later training",
            "attn_pdrop": "`dropout.attention`, in a later training",
        }
    ),
    "hidden_size": Alias("n_embd"),
    "max_position_embeddings": Alias("n_positions"),
    "num_attention_heads": Alias("n_head"),
    "num_hidden_layers": Alias("n_layer"),
    "add_cross_attention": _DECODER_PARTS["add_cross_attention"],
    "scale_attn_weights": Only((True,), "attention scores without their scale"),
    "scale_attn_by_inverse_layer_idx": Only((False,), "attention scores scaled by the number of the layer"),
    **no_effect("it changes the order of operations, not their result", "reorder_and_upcast_attn"),
    **no_effect("no part of the network reads it", "n_ctx"),
    **no_effect("the head of multiple choices is not used", "summary_activation summary_first_dropout summary_type"),
    **no_effect(
        "the head of multiple choices is not used", "summary_last_dropout summary_proj_to_labels summary_use_proj"
    ),
}
_LLAMA_LAYOUT: Final[KeyTable] = {
    **_COMMON,
    **_PROMPT_SYMBOLS,
    **computed(
        {
            "hidden_size": "`d_model`",
            "intermediate_size": "`d_ff`",
            "num_hidden_layers": "`num_layers`",
            "num_attention_heads": "`num_heads`",
            "num_key_value_heads": "`num_kv_heads`",
            "head_dim": "`head_size`",
            "hidden_act": "`activation`",
            "rms_norm_eps": "`norm_epsilon`",
            "max_position_embeddings": "the context",
            "attention_dropout": "`dropout.attention`, in a later training",
            "tie_word_embeddings": "`tie_embeddings`, with the weights",
            "rope_theta": "`positions.base`",
            "rope_scaling": "`positions`; it takes precedence over `rope_parameters`, as in transformers",
            "rope_parameters": "`positions`",
        }
    ),
    "rope_interleaved": Only((False,), "rotations of neighboring features"),
    "partial_rotary_factor": Only((1,), "positions in a part of each head"),
    **no_effect("transformers reads it in other families", "layer_types sliding_window use_sliding_window"),
    **no_effect("transformers reads it in other families", "max_window_layers"),
    **no_effect("another library reads it", "is_llama_config transformers.js_config"),
}
_LLAMA: Final[KeyTable] = {
    **_LLAMA_LAYOUT,
    **computed(
        {
            "attention_bias": "`bias`, with `mlp_bias`",
            "mlp_bias": "`bias`, with `attention_bias`",
            "sliding_window": "nothing: a window that is shorter than the context is refused",
        }
    ),
}
_MISTRAL: Final[KeyTable] = {
    **_LLAMA_LAYOUT,
    **_UNREAD_BIASES,
    "sliding_window": Computed("`attention.pattern`; without the key, a window of 4,096, and none if it is null"),
}
_QWEN2: Final[KeyTable] = {
    **_LLAMA_LAYOUT,
    **_UNREAD_BIASES,
    **computed(
        {
            "use_sliding_window": "whether `sliding_window` counts",
            "sliding_window": "`attention.pattern`",
            "max_window_layers": "`attention.pattern`: layers without a window, of which all or none are read",
            "layer_types": "`attention.pattern`, one type in all layers",
        }
    ),
}
_POSITIONS: Final = computed(
    {"rope_type": "the kind of scaling", "type": "the kind of scaling", "rope_theta": "`positions.base`"}
)
_LLAMA3: Final = computed(
    {
        "factor": "`scaling.factor`",
        "low_freq_factor": "`scaling.low_frequency_factor`",
        "high_freq_factor": "`scaling.high_frequency_factor`",
        "original_max_position_embeddings": "`scaling.original_length`",
    }
)
_PART: Final = {"partial_rotary_factor": _LLAMA_LAYOUT["partial_rotary_factor"]}
_UNSCALED: Final = no_effect(
    "positions of this type are not scaled within the context",
    "factor original_max_position_embeddings low_freq_factor high_freq_factor attention_factor beta_fast beta_slow "
    "short_factor long_factor",
)
ROPE_KEYS: Final[Mapping[str, KeyTable]] = {
    "default": {**_POSITIONS, **_PART, **_UNSCALED},
    "dynamic": {**_POSITIONS, **_PART, **_UNSCALED},
    "linear": {**_POSITIONS, **_PART, "factor": _LLAMA3["factor"]},
    "llama3": {**_POSITIONS, **_PART, **_LLAMA3},
}
"""Keys of `rope_parameters` and `rope_scaling` by their `rope_type`."""
MODEL_KEYS: Final[Mapping[str, KeyTable]] = {
    "marian": _MARIAN,
    "bart": _bart(pre_norm=False, norm_embedding=True, learned=True),
    "mbart": _bart(pre_norm=True, norm_embedding=True, learned=True),
    "m2m_100": _bart(pre_norm=True, norm_embedding=False, learned=False),
    "pegasus": _bart(pre_norm=True, norm_embedding=False, learned=False),
    "t5": _T5,
    "mt5": _MT5,
    "gpt2": _GPT2,
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "qwen2": _QWEN2,
    "bert": _BERT,
    "roberta": _ROBERTA,
    "distilbert": _DISTILBERT,
}
"""Keys of `config.json` by `model_type`."""
