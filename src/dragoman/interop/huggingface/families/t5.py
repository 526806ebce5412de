"""T5, T5 v1.1 with FLAN and MADLAD, and mT5.

T5 has no scale in its attention scores, root-mean-square norms before each sublayer, no biases, and position biases
that the layers of a stack share. Version 1.0 ties the output projection to the embedding and divides hidden states by
$\\sqrt{d}$ before it; version 1.1 has an output projection of its own and gated feed-forward networks.

The tensors of a file decide: transformers 5 writes `tie_word_embeddings: true` for both versions, next to
`scale_decoder_outputs`. mT5 never divides, whether its output projection is tied or not.

Source: `modeling_t5.py` and `configuration_t5.py` of transformers 5.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dragoman.interop.huggingface.families.bart import ACTIVATIONS, read_activation
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.seq2seq import Seq2SeqFamily
from dragoman.interop.tensor_names import LeftOver, TensorPair, TensorTable
from dragoman.models.config import (
    CrossAttentionConfig,
    DropoutConfig,
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    SelfAttentionConfig,
    T5BiasConfig,
)
from dragoman.nn.attention_score_functions import DotConfig

EMBEDDINGS = ("shared.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")
"""Names of the one embedding of both stacks; MADLAD has the second only."""
HEAD = "lm_head.weight"


def read_network(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> EncoderDecoderConfig:
    """Return the network of a configuration. Raises DataError for keys and values without counterpart."""
    gated, activation = _feed_forward(config)
    layers, dropout = config.size("num_layers", 6), config.rate("dropout_rate", 0.1)
    plain = SelfAttentionConfig(score=DotConfig())
    is_scaled, is_untied = _output(family, config, tensors)
    return EncoderDecoderConfig(
        d_model=config.size("d_model", 512),
        num_heads=config.size("num_heads", 8),
        head_size=config.size("d_kv", 64),
        d_ff=config.size("d_ff", 2048),
        encoder_layers=layers,
        decoder_layers=config.size("num_decoder_layers", layers),
        activation=activation,
        gated=gated,
        norm="rms",
        norm_epsilon=config.positive("layer_norm_epsilon", 1e-6),
        bias=False,
        scale_embedding=False,
        positions=T5BiasConfig(
            num_buckets=config.size("relative_attention_num_buckets", 32),
            max_distance=config.size("relative_attention_max_distance", 128),
        ),
        attention=EncoderDecoderAttentionConfig(
            encoder=plain, decoder=plain, cross=CrossAttentionConfig(score=DotConfig())
        ),
        tie_embeddings="none" if is_untied else "all",
        scale_output=is_scaled,
        dropout=DropoutConfig(embedding=dropout, residual=dropout, attention=dropout, feed_forward=dropout),
    )


def tensor_table(_: str, network: EncoderDecoderConfig) -> TensorTable:
    """Return the names of the tensors of a network."""
    first, *others = EMBEDDINGS
    table = "{}_embedding.tokens.weight".format
    if network.tie_embeddings == "all":
        pairs = [TensorPair(table("source"), first, rows="source", aliases=(*others, HEAD))]
    else:
        pairs = [
            TensorPair(table("source"), first, rows="source", aliases=tuple(others)),
            TensorPair(table("target"), (), rows="target", aliases=EMBEDDINGS),
            TensorPair("unembedding.weight", HEAD, rows="target"),
        ]
    pairs.append(TensorPair("unembedding.bias", (), rows="output_bias", default=0.0))
    for stack in ("encoder", "decoder"):
        pairs += _stack_pairs(stack, gated=network.gated)
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    return TensorTable(pairs, (LeftOver(unused, "cross-attention of T5 has no position bias"),))


def _feed_forward(config: ForeignConfig) -> tuple[bool, Any]:
    """Return whether the feed-forward network is gated, and its activation."""
    name = config.get("feed_forward_proj", str, "relu")
    kind, _, activation = name.rpartition("-")
    if kind not in ("", "gated") or activation not in ACTIVATIONS:
        raise config.error("feed_forward_proj", name, "gated-gelu, gated-silu, relu, …")
    if name == "gated-gelu":
        activation = "gelu_new"  # the name of an exact GELU means its approximation here
    # Keys that transformers writes next to the name take precedence over it.
    return config.flag("is_gated_act", kind == "gated"), read_activation(config, "dense_act_fn", activation)


def _output(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> tuple[bool, bool]:
    """Return whether hidden states are scaled before the output projection, and whether it has its own weights.

    The weights determine the second one. mT5 never scales, and T5 scales unless a file says otherwise.
    """
    is_scaled = family == "t5" and _is_scaled(config)
    embedding = next((tensors[name] for name in EMBEDDINGS if name in tensors), None)
    is_untied = HEAD in tensors and embedding is not None and not np.array_equal(tensors[HEAD], embedding)
    if is_scaled and is_untied:
        raise config.error("scale_decoder_outputs", True, "false with an output projection that has its own weights,")
    return is_scaled, is_untied


def _is_scaled(config: ForeignConfig) -> bool:
    """Return whether T5 scales hidden states; null stands for false here, and a missing key for true."""
    is_tied = config.flag("tie_word_embeddings", True)
    return config.flag("scale_decoder_outputs", "scale_decoder_outputs" not in config.tree and is_tied)


def _stack_pairs(stack: str, *, gated: bool) -> list[TensorPair]:
    block, foreign = f"{stack}.{{layer}}", f"{stack}.block.{{layer}}.layer"
    last = 2 if stack == "decoder" else 1
    pairs = [
        TensorPair(f"{stack}_norm.weight", f"{stack}.final_layer_norm.weight"),
        TensorPair(
            f"{stack}.0.attention.position_bias.table",
            f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        ),
        *_attention(f"{block}.attention", f"{foreign}.0.SelfAttention"),
        TensorPair(f"{block}.attention_residual.norm.weight", f"{foreign}.0.layer_norm.weight"),
        TensorPair(f"{block}.feed_forward_residual.norm.weight", f"{foreign}.{last}.layer_norm.weight"),
    ]
    if stack == "decoder":
        pairs += _attention(f"{block}.cross_attention", f"{foreign}.1.EncDecAttention")
        pairs.append(TensorPair(f"{block}.cross_attention_residual.norm.weight", f"{foreign}.1.layer_norm.weight"))
    dense = f"{foreign}.{last}.DenseReluDense"
    inner = "wi_0" if gated else "wi"
    pairs.append(TensorPair(f"{block}.feed_forward.inner.weight", f"{dense}.{inner}.weight"))
    pairs.append(TensorPair(f"{block}.feed_forward.gate.weight", f"{dense}.wi_1.weight"))
    pairs.append(TensorPair(f"{block}.feed_forward.outer.weight", f"{dense}.wo.weight"))
    return pairs


def _attention(module: str, foreign: str) -> list[TensorPair]:
    names = (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o"))
    return [TensorPair(f"{module}.{own}.weight", f"{foreign}.{other}.weight") for own, other in names]


FAMILIES = tuple(
    Seq2SeqFamily(name, model_class, read_network, tensor_table, default_start=0)
    for name, model_class in (("t5", "T5ForConditionalGeneration"), ("mt5", "MT5ForConditionalGeneration"))
)
