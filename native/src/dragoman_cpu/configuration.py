"""From the `model` part of a run's configuration to the plain settings of the core."""

from collections.abc import Mapping
from typing import Any

Settings = dict[str, Any]

_ABSOLUTE = ("sinusoidal", "learned")
_POSITIONS = (*_ABSOLUTE, "rotary", "alibi", "bucketed", "none")
_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
_STACK = {
    *(
        "kind",
        "size",
        "heads",
        "key_value_heads",
        "feed_forward",
        "activation",
        "gated",
        "norm",
        "norm_position",
        "bias",
    ),
    *("positions", "scale_embedding", "norm_embedding", "dropout", "attention", "tie"),
}
_KEYS = {
    "transformer": _STACK | {"encoder_layers", "decoder_layers", "source_vocabulary", "target_vocabulary"},
    "causal": _STACK | {"layers", "vocabulary"},
}


def accepts(config: Mapping[str, Any]) -> str | None:
    """Why the core cannot run a model of this configuration, in one sentence, or None if it can.

    Whether sizes fit one another is for the configuration itself; a `Model` refuses what does not.
    """
    kind = config.get("kind")
    if kind not in _KEYS:
        return f"models of kind {kind} are not for the compiled core, which runs transformer and causal"
    positions = config["positions"]
    if positions["kind"] not in _POSITIONS:
        return f"{positions['kind']} positions are not for the compiled core"
    if positions.get("join", "add") != "add":
        return "positions that are concatenated are not for the compiled core"
    for name, attention in _attentions(config).items():
        score, pattern = attention["score"]["kind"], attention.get("pattern", {"kind": "full"})["kind"]
        if score not in ("dot", "scaled_dot"):
            return f"{score} scores ({name}) are not for the compiled core, which has dot and scaled_dot"
        if pattern != "full":
            return f"the {pattern} pattern ({name}) is not for the compiled core, which has full attention"
    return None


def settings_of(config: Mapping[str, Any]) -> Settings:
    """What the core is told; raises ValueError for a configuration that is not accepted or not complete."""
    if not isinstance(config, Mapping):
        raise ValueError(f"the configuration is a {type(config).__name__}, and must be a mapping")
    try:
        reason = accepts(config)
        if reason is None:
            return _read(config)
    except KeyError as error:
        raise ValueError(f"configuration: there is no {error.args[0]}; write the defaults out") from error
    except (AttributeError, TypeError) as error:
        raise ValueError(f"configuration: a value is not of the kind that it should be ({error})") from error
    raise ValueError(f"configuration: {reason}")


def _read(config: Mapping[str, Any]) -> Settings:
    unknown = config.keys() - _KEYS[config["kind"]]
    if unknown:
        raise ValueError(f"configuration: {min(unknown)} is not a key of a {config['kind']} model")
    heads, positions, attentions = _count(config, "heads"), config["positions"], _attentions(config)
    size = _count(config, "size")
    scales = {
        f"{name}_scale": 1.0 if attention["score"]["kind"] == "dot" else (size / heads) ** -0.5
        for name, attention in attentions.items()
    }
    kept = {f"{name}_kept": _kept(name, attention) for name, attention in attentions.items()}
    return {
        "size": size,
        "heads": heads,
        "key_value_heads": heads if config["key_value_heads"] is None else _count(config, "key_value_heads"),
        "feed_forward": _count(config, "feed_forward"),
        "activation": _choice(config, "activation", _ACTIVATIONS),
        "gated": _switch(config, "gated"),
        "rms_norm": _choice(config, "norm", ("layer", "rms")) == "rms",
        "pre_norm": _choice(config, "norm_position", ("pre", "post")) == "pre",
        "bias": _switch(config, "bias"),
        "scale_embedding": _switch(config, "scale_embedding"),
        "norm_embedding": _switch(config, "norm_embedding"),
        "positions": positions["kind"],
        "places": _count(positions, "length") if positions["kind"] == "learned" else 0,
        "buckets": _count(positions, "buckets") if positions["kind"] == "bucketed" else 0,
        "furthest": _count(positions, "furthest") if positions["kind"] == "bucketed" else 0,
        "rotary_base": float(positions["base"]) if positions["kind"] == "rotary" else 0.0,
        "encoder_scale": 1.0,
        "cross_scale": 1.0,
        "encoder_kept": [],
        "cross_kept": [],
        **scales,
        **kept,
        **(_causal(config) if config["kind"] == "causal" else _seq2seq(config)),
    }


def _seq2seq(config: Mapping[str, Any]) -> Settings:
    tie = _choice(config, "tie", ("all", "target", "none"))
    return {
        "causal": False,
        "encoder_layers": _count(config, "encoder_layers"),
        "decoder_layers": _count(config, "decoder_layers"),
        "source_vocabulary": _count(config, "source_vocabulary"),
        "target_vocabulary": _count(config, "target_vocabulary"),
        "tie_source": tie == "all",
        "tie_unembedding": tie != "none",
    }


def _causal(config: Mapping[str, Any]) -> Settings:
    vocabulary = _count(config, "vocabulary")
    return {
        "causal": True,
        "encoder_layers": 0,
        "decoder_layers": _count(config, "layers"),
        "source_vocabulary": vocabulary,
        "target_vocabulary": vocabulary,
        "tie_source": False,
        "tie_unembedding": _switch(config, "tie"),
    }


def _attentions(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Each attention by the stack that it is in."""
    attention = config["attention"]
    if config["kind"] == "causal":
        return {"decoder": attention}
    return {name: attention[name] for name in ("encoder", "decoder", "cross")}


def _kept(name: str, attention: Mapping[str, Any]) -> list[list[int]]:
    """The heads that pruning left in each layer; no layers where it took none."""
    kept = attention.get("kept")
    layers = [list(heads) for heads in kept or ()]
    if kept is not None and (
        not layers or any(type(head) is not int or head < 0 for heads in layers for head in heads)
    ):
        raise ValueError(
            f"configuration: attention.{name}.kept = {kept!r} must be the numbers of heads, a list a layer"
        )
    return layers


def _count(config: Mapping[str, Any], key: str) -> int:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"configuration: {key} = {value!r} must be a whole number from 1 on")
    return value


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
