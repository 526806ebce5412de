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

import numpy as np

from dragoman.interop.huggingface.decoder_only import DecoderFamily, is_untied
from dragoman.interop.huggingface.families.bart import read_activation
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.model_keys import ROPE_KEYS
from dragoman.interop.tensor_names import LeftOver, TensorPair, TensorTable
from dragoman.models.config import DecoderOnlyConfig, DropoutConfig, RotaryConfig, SelfAttentionConfig
from dragoman.nn.attention import FullConfig
from dragoman.nn.positions.rotary import LinearScalingConfig, Llama3ScalingConfig, RotaryScaling
from dragoman.nn.sparse.factory import PatternConfig
from dragoman.nn.sparse.sliding_window import SlidingWindowConfig

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
BASE = 10000.0
WINDOW = 4096
"""Window of Mistral and Qwen2 where no file names one."""
MAX_POSITIONS = {"llama": 2048, "mistral": 131_072, "qwen2": 32_768}
"""Context by family where no file names one."""


def read_network(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> DecoderOnlyConfig:
    """Return the network of a configuration. Raises DataError for keys and values without counterpart."""
    heads, attention_dropout = config.size("num_attention_heads"), config.rate("attention_dropout", 0.0)
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
        norm_epsilon=config.positive("rms_norm_eps", 1e-6),
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
    """Return the rotation; `rope_scaling` of transformers 4 takes precedence over `rope_parameters`, as there."""
    both = {key: config.get(key, dict, {}) for key in ("rope_scaling", "rope_parameters")}
    group = "rope_scaling" if both["rope_scaling"] else "rope_parameters"
    tree = both[group]
    kind = next((tree[key] for key in ("rope_type", "type") if tree.get(key) is not None), "default")
    if kind not in ROPE_KEYS:
        raise config.error(f"{group}.rope_type", kind, "one of " + ", ".join(ROPE_KEYS))
    settings = ForeignConfig(tree, path=config.path, table=ROPE_KEYS[kind], group=group)
    base = settings.number("rope_theta", config.number("rope_theta", BASE))
    return RotaryConfig(base=base, scaling=_scaling(kind, settings, config))


def _scaling(kind: str, settings: ForeignConfig, config: ForeignConfig) -> RotaryScaling | None:
    match kind:
        case "linear":
            return LinearScalingConfig(factor=settings.number("factor"))
        case "llama3":
            return Llama3ScalingConfig(
                factor=settings.number("factor"),
                low_frequency_factor=settings.number("low_freq_factor"),
                high_frequency_factor=settings.number("high_freq_factor"),
                original_length=settings.size(
                    "original_max_position_embeddings", config.size("max_position_embeddings", MAX_POSITIONS["llama"])
                ),
            )
    return None


def _pattern(family: str, config: ForeignConfig, layers: int) -> PatternConfig:
    """Return the keys that a query sees; a window includes the query there, and not here."""
    is_named, longest = "sliding_window" in config.tree, config.size("max_position_embeddings", MAX_POSITIONS[family])
    if family == "qwen2" and not _is_windowed(config, layers):
        return FullConfig()
    if (is_named or family == "llama") and config.value("sliding_window") is None:
        return FullConfig()
    window = config.size("sliding_window", WINDOW, at_least=2)
    if window >= longest:
        return FullConfig()
    if family == "llama":  # in transformers, the cache of `generate` obeys the window, and the network does not
        raise config.error("sliding_window", window, f"null, or {longest} or more,")
    return SlidingWindowConfig(window=window - 1)


def _is_windowed(config: ForeignConfig, layers: int) -> bool:
    """Return whether the layers of Qwen2 have windows. Raises DataError if some have, and others not."""
    kinds = config.get("layer_types", list, [])
    full = config.size("max_window_layers", 28, at_least=0)
    if not config.flag("use_sliding_window", False):
        return False
    kinds = kinds or ["full_attention" if layer < full else "sliding_attention" for layer in range(layers)]
    if len(set(kinds)) > 1:
        raise config.error("layer_types", kinds, "one type of attention in all layers")
    return kinds[:1] != ["full_attention"]


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
    DecoderFamily(name, model_class, read_network, tensor_table, default_positions=MAX_POSITIONS[name])
    for name, model_class in (
        ("llama", "LlamaForCausalLM"),
        ("mistral", "MistralForCausalLM"),
        ("qwen2", "Qwen2ForCausalLM"),
    )
)
