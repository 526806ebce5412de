"""Keys of CTranslate2, with what the import does with each: those of `config.json` and the attributes in `model.bin`.

An attribute that is computed is refused in a model without the part that reads it. Source: the classes in
`ctranslate2/specs`, with which tests compare the tables.
"""

import re
from collections.abc import Collection
from typing import Final

from dragoman.interop.key_table import KeyTable, Only, Treatment, computed, no_effect

ACTIVATIONS: Final = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
"""Our activation functions by their numbers in CTranslate2."""
CONFIG_KEYS: Final[KeyTable] = {
    **computed(
        {
            "unk_token": "the unknown symbol",
            "bos_token": "the begin symbol",
            "eos_token": "the end symbol",
            "decoder_start_token": "the symbol before an output",
            "add_source_bos": "a begin symbol before each source",
            "add_source_eos": "an end symbol after each source",
            "layer_norm_epsilon": "`norm_epsilon`",
        }
    ),
    "quantization_type": Only((0,), "a quantization that only GPUs run (AWQ)"),
    **no_effect("the shapes of the weights say it, too", "multi_query_attention"),
    **no_effect("details of `quantization_type`", "quantization_bits quantization_group_size"),
}
_NAMES: Final = ", ".join(f"{number} is {name}" for number, name in ACTIVATIONS.items())
_SHARED: Final[dict[str, Treatment]] = {
    **computed({"num_heads": "`num_heads`", "pre_norm": "`norm_position`"}),
    "activation": Only(tuple(ACTIVATIONS), f"another activation function: {_NAMES}"),
    **no_effect("several embeddings, whose weights are refused, are merged by it", "embeddings_merge"),
}
"""Attributes of a stack; in older files, those of both stacks."""
_REPORTED: Final = no_effect("it chooses the attention that is reported", "alignment_layer alignment_heads")
_WINDOW: Final = Only((0,), "a window of attention")
_STACK: Final[dict[str, Treatment]] = {
    **_SHARED,
    **computed(
        {
            "scale_embeddings": "`scale_embedding`",
            "embeddings/multiply_by_sqrt_depth": "`scale_embedding` of older files",
        }
    ),
    "sliding_window": _WINDOW,
    **no_effect("the shapes of the weights say it, too", "multi_query_attention"),
}
_DECODER: Final[dict[str, Treatment]] = {
    **_STACK,
    **_REPORTED,
    **computed(
        {
            "scale_outputs": "`scale_output`",
            "start_from_zero_embedding": "`start_embedding`",
            "alibi": "`positions.kind`",
            "scale_alibi": "refused with ALiBi",
        }
    ),
    "layer_*/layer_scalar": Only((1,), "a factor of each layer"),
    "final_logit_softcapping": Only((0,), "a bound of the logits"),
    **no_effect("biases that differ by a constant are equal after the softmax", "alibi_use_positive_positions"),
}
_ATTENTION: Final[dict[str, Treatment]] = {
    **computed(
        {
            "queries_scale": "`attention.score`",
            "num_heads_kv": "`num_kv_heads`",
            "multi_query": "`num_kv_heads` of older files",
            "head_dim": "`head_size`",
            "relative_attention_max_distance": "`positions.max_distance`",
            "rotary_dim": "`positions.kind`",
            "rotary_interleave": "the order of the features of queries and keys",
            "rotary_base": "`positions.base`",
            "rotary_scaling_type": "`positions.scaling.kind`",
            "rotary_scaling_factor": "`positions.scaling.factor`",
            "rotary_low_freq_factor": "`positions.scaling.low_frequency_factor`",
            "rotary_high_freq_factor": "`positions.scaling.high_frequency_factor`",
            "original_max_position_embeddings": "`positions.scaling.original_length`",
        }
    ),
    "sliding_window": _WINDOW,
    "merged_encoder_attention": Only((0,), "self-attention to the source, too"),
    **{f"relative_{side}_max_position": Only((), "positions of Shaw with a direction") for side in ("left", "right")},
    **no_effect("only scaling of kind Su, which is refused, reads it", "max_position_embeddings"),
}
_LAYER: Final = {
    f"layer_*/{kind}/{key}": one for kind in ("self_attention", "attention") for key, one in _ATTENTION.items()
}
ATTRIBUTES: Final[KeyTable] = {
    **_SHARED,
    **_REPORTED,
    **{f"encoder/{key}": treatment for key, treatment in {**_STACK, **_LAYER}.items()},
    **{f"decoder/{key}": treatment for key, treatment in {**_DECODER, **_LAYER}.items()},
    **no_effect("CTranslate2 does not read it", "encoder/embeddings_*/multiply_by_sqrt_depth"),
    "*/layer_norm_use_residual": Only((0,), "norms that scale by one more than their weight"),
}
"""Attributes in `model.bin`, variables without dimensions. `*` stands for a number, or for the path of a norm."""
_NUMBER: Final = re.compile(r"(?<=_)[0-9]{1,5}(?=/)")


def attribute_table(names: Collection[str]) -> KeyTable:
    """Return the treatment of attributes by their names in a model, without those that are unknown."""
    rows = {name: _NUMBER.sub("*", name) for name in names}
    rows |= {name: "*/layer_norm_use_residual" for name in names if name.endswith("/layer_norm_use_residual")}
    return {name: ATTRIBUTES[row] for name, row in rows.items() if row in ATTRIBUTES}
