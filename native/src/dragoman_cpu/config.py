"""Translation of the `model` section of a run's configuration into the options of the extension module."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Options = dict[str, Any]
Value = TypeVar("Value")

_POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "t5_bias", "none")
_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
_SCALINGS = ("linear", "llama3")
_DECODER_LAYERS = ("self_attention", "ssru")
_COMMON_KEYS = {
    "kind",
    "d_model",
    "num_heads",
    "num_kv_heads",
    "d_ff",
    "activation",
    "gated",
    "norm",
    "norm_position",
    "bias",
    "positions",
    "scale_embedding",
    "norm_embedding",
    "dropout",
    "attention",
    "tie_embeddings",
    "head_size",
    "norm_epsilon",
    "qkv_bias",
    "output_bias",
}
# Dropout has no effect here. Neither have source_eos, because the caller adds end symbols to sources, and
# start_embedding, because the row of BOS is zero in the weights.
_KEYS = {
    "encoder_decoder": _COMMON_KEYS
    | {"encoder_layers", "decoder_layers", "source_vocabulary", "target_vocabulary"}
    | {"scale_output", "decoder_layer", "source_eos", "start_embedding"},
    "decoder_only": _COMMON_KEYS | {"num_layers", "vocabulary"},
}


def unsupported_reason(config: Mapping[str, Any]) -> str | None:
    """Explain in one sentence why the library cannot run this architecture; return None if it can.

    Contradictory sizes are not reported here: `Model` refuses them.
    """
    kind = config.get("kind")
    if kind not in _KEYS:
        return f"the CPU library runs models of kind encoder_decoder and decoder_only, not {kind}"
    positions = config["positions"]
    if positions["kind"] not in _POSITIONS:
        return f"the CPU library does not support {positions['kind']} positions"
    if positions.get("join", "add") != "add":
        return f"the CPU library does not support positions.join = {positions['join']}"
    if (scaling := positions.get("scaling")) is not None and scaling["kind"] not in _SCALINGS:
        return f"the CPU library does not support {scaling['kind']} scaling of positions"
    if (layer := config.get("decoder_layer", "self_attention")) not in _DECODER_LAYERS:
        return f"the CPU library does not support decoder layers of kind {layer}"
    for name, attention in _attentions(config).items():
        score, pattern = attention["score"]["kind"], attention.get("pattern", {"kind": "full"})["kind"]
        if score not in ("dot", "scaled_dot"):
            return f"the CPU library supports dot and scaled_dot scores, not {score} ({name} attention)"
        if pattern != "full":
            return f"the CPU library supports full attention, not the pattern {pattern} ({name} attention)"
    return None


def model_options(config: Mapping[str, Any]) -> Options:
    """Return the options of the extension module; raise ValueError if `config` is unsupported or incomplete."""
    if not isinstance(config, Mapping):
        raise ValueError(f"the configuration is a {type(config).__name__}, and must be a mapping")
    try:
        reason = unsupported_reason(config)
        if reason is None:
            return _options(config)
    except KeyError as error:
        raise ValueError(f"configuration: there is no {error.args[0]}; write out the defaults") from error
    except (AttributeError, TypeError) as error:
        raise ValueError(f"configuration: a value has the wrong type ({error})") from error
    raise ValueError(f"configuration: {reason}")


def _options(config: Mapping[str, Any]) -> Options:
    unknown = config.keys() - _KEYS[config["kind"]]
    if unknown:
        raise ValueError(f"configuration: {min(unknown)} is not a key of a {config['kind']} model")
    num_heads = _count(config, "num_heads")
    rms_norm, bias = _choice(config, "norm", ("layer", "rms")) == "rms", _switch(config, "bias")
    return {
        "d_model": _count(config, "d_model"),
        "num_heads": num_heads,
        "num_kv_heads": num_heads if config["num_kv_heads"] is None else _count(config, "num_kv_heads"),
        "head_size": _optional(config, "head_size", 0, _count),
        "d_ff": _count(config, "d_ff"),
        "activation": _choice(config, "activation", _ACTIVATIONS),
        "gated": _switch(config, "gated"),
        "rms_norm": rms_norm,
        "norm_epsilon": _optional(config, "norm_epsilon", 1e-6 if rms_norm else 1e-5, _positive),
        "pre_norm": _choice(config, "norm_position", ("pre", "post")) == "pre",
        "bias": bias,
        "qkv_bias": _optional(config, "qkv_bias", bias, _switch),
        "output_bias": _optional(config, "output_bias", bias, _switch),
        "scale_embedding": _switch(config, "scale_embedding"),
        "norm_embedding": _switch(config, "norm_embedding"),
        **_position_options(config["positions"]),
        **_attention_options(config),
        **(_decoder_only_options(config) if config["kind"] == "decoder_only" else _seq2seq_options(config)),
    }


def _position_options(positions: Mapping[str, Any]) -> Options:
    kind = positions["kind"]
    return {
        "positions": kind,
        "position_offset": _optional(positions, "offset", 0, _natural),
        "sinusoid_halves": _optional(positions, "order", "interleaved", _sinusoid_order) == "halves",
        "sinusoid_inclusive": _optional(positions, "inclusive", False, _switch),
        "max_positions": _count(positions, "max_length") if kind == "learned" else 0,
        "num_buckets": _count(positions, "num_buckets") if kind == "t5_bias" else 0,
        "max_distance": _count(positions, "max_distance") if kind == "t5_bias" else 0,
        "rotary_base": float(positions["base"]) if kind == "rotary" else 0.0,
        **_rotary_scaling_options(positions.get("scaling")),
    }


def _rotary_scaling_options(scaling: Mapping[str, Any] | None) -> Options:
    """Return the extension of rotary positions to longer contexts, or numbers without effect."""
    if scaling is None:
        scaling = {"kind": "none", "factor": 1.0}
    numbers = {"low_frequency_factor": 1.0, "high_frequency_factor": 4.0, "original_length": 8192}
    return {
        "rotary_scaling": scaling["kind"],
        "scaling_factor": _positive(scaling, "factor"),
        **{
            key: _positive(scaling, key) if scaling["kind"] == "llama3" else float(number)
            for key, number in numbers.items()
        },
    }


def _attention_options(config: Mapping[str, Any]) -> Options:
    """Return score factors and kept heads of the three attentions, with defaults for missing ones."""
    options: Options = {"encoder_scale": 1.0, "cross_scale": 1.0, "encoder_kept_heads": [], "cross_kept_heads": []}
    head_dim = config.get("head_size") or config["d_model"] / config["num_heads"]
    for name, attention in _attentions(config).items():
        options[f"{name}_scale"] = 1.0 if attention["score"]["kind"] == "dot" else head_dim**-0.5
        options[f"{name}_kept_heads"] = _kept_heads(name, attention)
    return options


def _seq2seq_options(config: Mapping[str, Any]) -> Options:
    tie = _choice(config, "tie_embeddings", ("all", "target", "none"))
    return {
        "decoder_only": False,
        "encoder_layers": _count(config, "encoder_layers"),
        "decoder_layers": _count(config, "decoder_layers"),
        "source_vocabulary": _count(config, "source_vocabulary"),
        "target_vocabulary": _count(config, "target_vocabulary"),
        "tie_source_embedding": tie == "all",
        "tie_output_projection": tie != "none",
        "scale_output": _optional(config, "scale_output", False, _switch),
        "ssru": config.get("decoder_layer") == "ssru",
    }


def _decoder_only_options(config: Mapping[str, Any]) -> Options:
    vocabulary = _count(config, "vocabulary")
    return {
        "decoder_only": True,
        "encoder_layers": 0,
        "decoder_layers": _count(config, "num_layers"),
        "source_vocabulary": vocabulary,
        "target_vocabulary": vocabulary,
        "tie_source_embedding": False,
        "tie_output_projection": _switch(config, "tie_embeddings"),
        "scale_output": False,
        "ssru": False,
    }


def _attentions(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the attention sections by role: encoder, decoder or cross."""
    attention = config["attention"]
    if config["kind"] == "decoder_only":
        return {"decoder": attention}
    return {name: attention[name] for name in ("encoder", "decoder", "cross")}


def _kept_heads(name: str, attention: Mapping[str, Any]) -> list[list[int]]:
    """Return the heads that pruning kept in each layer; an empty list if no layer was pruned."""
    kept = attention.get("kept_heads")
    layers = [list(heads) for heads in kept or ()]
    if kept is not None and (
        not layers or any(type(head) is not int or head < 0 for heads in layers for head in heads)
    ):
        raise ValueError(
            f"configuration: attention.{name}.kept_heads = {kept!r} must be one list of head numbers per layer"
        )
    return layers


def _count(config: Mapping[str, Any], key: str) -> int:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"configuration: {key} = {value!r} must be a positive integer")
    return value


def _natural(config: Mapping[str, Any], key: str) -> int:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"configuration: {key} = {value!r} must be 0 or a positive integer")
    return value


def _positive(config: Mapping[str, Any], key: str) -> float:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"configuration: {key} = {value!r} must be a number above 0")
    return float(value)


def _sinusoid_order(config: Mapping[str, Any], key: str) -> str:
    return _choice(config, key, ("interleaved", "halves"))


def _optional(
    config: Mapping[str, Any], key: str, default: Value, read: Callable[[Mapping[str, Any], str], Value]
) -> Value:
    """Return an option that null or an older configuration without it leaves to its default."""
    return default if config.get(key) is None else read(config, key)


def _switch(config: Mapping[str, Any], key: str) -> bool:
    value = config[key]
    if not isinstance(value, bool):
        raise ValueError(f"configuration: {key} = {value!r} must be true or false")
    return value


def _choice(config: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str:
    value = config[key]
    if value not in choices:
        raise ValueError(f"configuration: {key} = {value!r} must be one of {', '.join(choices)}")
    return str(value)
