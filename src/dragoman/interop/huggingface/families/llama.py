"""Llama (Touvron et al., 2023) and models of its layout: Mistral and Qwen2.

They have rotary positions by halves of a head, root-mean-square norms before each sublayer, gated feed-forward networks
and groups of query heads that share keys and values. They differ in biases and in windows:

| family  | biases | window |
|---------|--------|--------|
| llama   | none, or `attention_bias` with `mlp_bias` | none |
| mistral | none | `sliding_window`, the query included |
| qwen2   | of queries, keys and values | `sliding_window` in all layers, or in none |

Sources: `modeling_*.py` and `configuration_*.py` of transformers 5.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dragoman.interop.huggingface.decoder_only import DecoderFamily, is_untied
from dragoman.interop.huggingface.families.bart import read_activation
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.tensor_names import LeftOver, TensorPair, TensorTable
from dragoman.models.config import DecoderOnlyConfig, DropoutConfig, RotaryConfig, SelfAttentionConfig
from dragoman.nn.attention import FullConfig
from dragoman.nn.positions.rotary import LinearScalingConfig, Llama3ScalingConfig, RotaryScaling
from dragoman.nn.sparse.factory import PatternConfig
from dragoman.nn.sparse.sliding_window import SlidingWindowConfig

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
BASE = 10000.0


def read_network(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> DecoderOnlyConfig:
    """Return the network of a configuration. Raises DataError for keys and values without counterpart."""
    config.require("pretraining_tp", 1)
    config.require("rope_interleaved", False)
    config.require("partial_rotary_factor", 1.0, 1)
    config.ignore("is_llama_config", "transformers.js_config")
    heads, attention_dropout = config.size("num_attention_heads"), config.number("attention_dropout", 0.0)
    layers, biases = config.size("num_hidden_layers"), _has_biases(family, config)
    return DecoderOnlyConfig(
        d_model=config.size("hidden_size"),
        num_heads=heads,
        num_kv_heads=config.size("num_key_value_heads", heads),
        head_size=config.size("head_dim") if "head_dim" in config else None,
        d_ff=config.size("intermediate_size"),
        num_layers=layers,
        activation=read_activation(config, "hidden_act", "silu"),
        gated=True,
        norm="rms",
        norm_epsilon=config.number("rms_norm_eps", 1e-6),
        bias=biases,
        qkv_bias=True if family == "qwen2" else None,
        output_bias=False,
        scale_embedding=False,
        positions=_positions(config),
        attention=SelfAttentionConfig(pattern=_pattern(family, config, layers)),
        tie_embeddings=not is_untied(config, tensors, EMBEDDING, HEAD, tied_by_default=False),
        dropout=DropoutConfig(embedding=0.0, residual=0.0, attention=attention_dropout),
    )


def tensor_table(_: str, network: DecoderOnlyConfig) -> TensorTable:
    """Return the names of the tensors of a network."""
    head = (HEAD,) if network.tie_embeddings else ()
    return TensorTable(
        [
            TensorPair("embedding.tokens.weight", EMBEDDING, rows="target", aliases=head),
            TensorPair("norm.weight", "model.norm.weight"),
            TensorPair("unembedding.weight", HEAD, rows="target"),
            TensorPair("unembedding.bias", (), rows="output_bias", default=0.0),
            *_layer_pairs("blocks.{layer}", "model.layers.{layer}"),
        ],
        (LeftOver("model.layers.{layer}.self_attn.rotary_emb.inv_freq", "rates of the positions, which are computed"),),
    )


def _has_biases(family: str, config: ForeignConfig) -> bool:
    """Return whether all linear layers have biases. Raises DataError if some of them have."""
    if family != "llama":
        return False
    attention, feed_forward = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    if attention != feed_forward:
        raise config.error("mlp_bias", feed_forward, f"{attention}, as attention_bias")
    return attention


def _positions(config: ForeignConfig) -> RotaryConfig:
    """Return the rotation; files of transformers 4 have `rope_theta` and `rope_scaling`."""
    given = config.get("rope_parameters", dict, {})
    base = config.number("rope_theta", BASE)
    settings = ForeignConfig(given or config.get("rope_scaling", dict, {}), path=config.path)
    config.ignore("rope_scaling", "rope_theta")
    return RotaryConfig(base=settings.number("rope_theta", base), scaling=_scaling(settings))


def _scaling(settings: ForeignConfig) -> RotaryScaling | None:
    kind = settings.get("rope_type", str, settings.get("type", str, "default"))
    settings.require("partial_rotary_factor", 1.0, 1)
    scaling: RotaryScaling | None
    match kind:
        case "default":
            scaling = None
        case "linear":
            scaling = LinearScalingConfig(factor=settings.number("factor"))
        case "llama3":
            scaling = Llama3ScalingConfig(
                factor=settings.number("factor"),
                low_frequency_factor=settings.number("low_freq_factor"),
                high_frequency_factor=settings.number("high_freq_factor"),
                original_length=settings.size("original_max_position_embeddings"),
            )
        case _:
            raise settings.error("rope_type", kind, "one of default, linear, llama3")
    settings.finish()
    return scaling


def _pattern(family: str, config: ForeignConfig, layers: int) -> PatternConfig:
    """Return the keys that a query sees; a window includes the query there, and not here."""
    window: Any = config.tree.get("sliding_window")
    config.ignore("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
    kinds = config.get("layer_types", list, [])
    is_windowed = family == "mistral" or (family == "qwen2" and config.flag("use_sliding_window", False))
    if family == "qwen2" and is_windowed and not kinds:
        full = config.size("max_window_layers", 28, at_least=0)
        kinds = ["full_attention" if n < full else "sliding_attention" for n in range(layers)]
    if len(set(kinds)) > 1:
        raise config.error("layer_types", kinds, "one type of attention in all layers")
    if window is None or not is_windowed or kinds[:1] == ["full_attention"]:
        return FullConfig()
    return SlidingWindowConfig(window=config.size("sliding_window", at_least=2) - 1)


def _layer_pairs(module: str, foreign: str) -> Iterator[TensorPair]:
    for own, other in (
        ("attention.query", "self_attn.q_proj"),
        ("attention.key", "self_attn.k_proj"),
        ("attention.value", "self_attn.v_proj"),
        ("attention.output", "self_attn.o_proj"),
        ("feed_forward.inner", "mlp.gate_proj"),
        ("feed_forward.gate", "mlp.up_proj"),
        ("feed_forward.outer", "mlp.down_proj"),
    ):
        for part in ("weight", "bias"):
            yield TensorPair(f"{module}.{own}.{part}", f"{foreign}.{other}.{part}")
    yield TensorPair(f"{module}.attention_residual.norm.weight", f"{foreign}.input_layernorm.weight")
    yield TensorPair(f"{module}.feed_forward_residual.norm.weight", f"{foreign}.post_attention_layernorm.weight")


FAMILIES = tuple(
    DecoderFamily(name, model_class, read_network, tensor_table)
    for name, model_class in (
        ("llama", "LlamaForCausalLM"),
        ("mistral", "MistralForCausalLM"),
        ("qwen2", "Qwen2ForCausalLM"),
    )
)
