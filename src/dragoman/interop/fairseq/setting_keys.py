"""Settings of fairseq's translation Transformers, with what the import does with each.

Source: `fairseq/models/transformer/transformer_config.py` and `transformer_legacy.py` of fairseq 0.6 to 0.12. A
checkpoint also holds all options of its training, which are not checked: `is_of_network` tells them apart.
"""

from typing import Final

from dragoman.interop.key_table import KeyTable, Only, Treatment, computed, no_effect

ACTIVATIONS: Final = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "swish": "silu",
}
"""Our activation functions by their names in fairseq."""
_OFF: Final = (False, 0)
_SIDE: Final[dict[str, Treatment]] = {
    **computed(
        {
            "embed_dim": "`d_model`",
            "ffn_embed_dim": "`d_ff`",
            "attention_heads": "`num_heads`",
            "normalize_before": "`norm_position`",
            "learned_pos": "`positions.kind`",
            "layers": "`encoder_layers` or `decoder_layers`",
        }
    ),
    "layers_to_keep": Only((), "a network without some layers"),
    "recurrent_stacking": Only(_OFF, "layers that repeat"),
    "factorized_embed_dim": Only(_OFF, "factorized embeddings"),
    "add_adapters": Only(_OFF, "adapters"),
    "xformers_att_config": Only(("",), "another attention"),
    **no_effect("only adapters, which are refused, read it", "adapter_reduction_factor adapter_activation_fn"),
    **no_effect("only adapters, which are refused, read it", "adapter_lang_ids finetune_adapter"),
    **no_effect("only training reads it", "embed_path layerdrop freeze_embed"),
}
KEYS: Final[KeyTable] = {
    **{f"{side}_{key}": treatment for side in ("encoder", "decoder") for key, treatment in _SIDE.items()},
    **computed(
        {
            "decoder_input_dim": "refused unless it is `d_model`",
            "decoder_output_dim": "refused unless it is `d_model`",
            "share_all_embeddings": "`tie_embeddings`",
            "share_decoder_input_output_embed": "`tie_embeddings`",
            "no_token_positional_embeddings": "`positions.kind`",
            "no_scale_embedding": "`scale_embedding`",
            "layernorm_embedding": "`norm_embedding`",
            "max_source_positions": "the longest source",
            "max_target_positions": "the longest target",
        }
    ),
    "activation_fn": Only(tuple(ACTIVATIONS), "another activation function"),
    "adaptive_input": Only(_OFF, "adaptive embeddings"),
    "adaptive_softmax_cutoff": Only(([], ""), "an adaptive softmax"),
    "char_inputs": Only(_OFF, "characters as inputs"),
    "cross_self_attention": Only(_OFF, "attention to source and target at once"),
    "no_cross_attention": Only(_OFF, "a decoder without cross-attention"),
    "no_decoder_final_norm": Only(_OFF, "a decoder without its last norm"),
    "use_factorized_embedding": Only(_OFF, "factorized embeddings"),
    "merge_src_tgt_embed": Only(_OFF, "one table of embeddings for two vocabularies"),
    "base_layers": Only(_OFF, "a mixture of experts"),
    **{f"scale_{part}": Only(_OFF, "NormFormer") for part in ("attn", "fc", "heads", "resids")},
    "export_scale": Only(_OFF, "NormFormer"),
    **no_effect("only an adaptive softmax, which is refused, reads it", "adaptive_softmax_dropout"),
    **no_effect("only an adaptive softmax, which is refused, reads it", "adaptive_softmax_factor tie_adaptive_weights"),
    **no_effect("only an adaptive softmax, which is refused, reads it", "tie_adaptive_proj"),
    **no_effect("only a mixture of experts, which is refused, reads it", "base_sublayers base_shuffle"),
    **no_effect(
        "only training reads it",
        "dropout attention_dropout activation_dropout relu_dropout checkpoint_activations offload_activations "
        "quant_noise_pq quant_noise_pq_block_size quant_noise_scalar min_params_to_wrap export",
    ),
}
_PREFIXES: Final = (
    "encoder_",
    "decoder_",
    "scale_",
    "share_",
    "adaptive_",
    "base_",
    "no_cross",
    "no_token",
    "no_scale",
)


def is_of_network(name: str) -> bool:
    """Return whether a setting is of the network, and not of the training."""
    return name in KEYS or name.startswith(_PREFIXES)
