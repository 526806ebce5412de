"""Marian's settings of a model, in both directions: YAML text inside a model file, and our configuration.

Marian's layer norms have the epsilon 1e-6, its sinusoids are halves with inclusive rates, and its decoders start from a
zero embedding (`marian/src/models/transformer.h`). It reads the setting of trained positions, and ignores it.
"""

from collections.abc import Mapping
from typing import Any, Final

from dragoman.errors import ConfigError, DataError, shorten, shorten_text
from dragoman.interop.imported_model import parse_encoder_decoder
from dragoman.interop.marian.model_keys import FIXED
from dragoman.models.config import EncoderDecoderConfig, SinusoidalConfig
from dragoman.nn.norms import EPSILON
from dragoman.yaml_files import YamlError, parse_yaml

NORM_EPSILON: Final = 1e-6
_ACTIVATIONS: Final = {"relu": "relu", "swish": "silu"}
_NORMS: Final = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
"""Position of the norms by the operations before and after a sublayer and after the stack, without dropout."""


def parse_settings(text: str, *, where: str) -> dict[str, Any]:
    """Return the settings of a model file. Raises DataError if they are no valid YAML mapping."""
    try:
        tree = parse_yaml(text)
    except YamlError as error:
        raise DataError(
            f"{where}: the settings of the model are no valid YAML ({error}). Get the file again."
        ) from None
    if not isinstance(tree, dict):
        raise DataError(f"{where}: the settings of the model are no mapping. Get the file again.")
    return tree


def to_network(settings: Mapping[str, Any], *, where: str) -> EncoderDecoderConfig:
    """Return our configuration. Raises ConfigError, with the setting, for networks that dragoman does not compute."""
    autoregression = _require(
        settings, "transformer-decoder-autoreg", ("self-attention", "rnn"), where=where, default="self-attention"
    )
    if autoregression == "rnn":
        _require(settings, "dec-cell", ("ssru",), where=where)
    activation = _require(settings, "transformer-ffn-activation", tuple(_ACTIVATIONS), where=where, default="swish")
    config: dict[str, Any] = {
        "encoder_layers": settings.get("enc-depth"),
        "decoder_layers": settings.get("dec-depth"),
        "d_model": settings.get("dim-emb"),
        "num_heads": settings.get("transformer-heads"),
        "d_ff": settings.get("transformer-dim-ffn"),
        "activation": _ACTIVATIONS[activation],
        "norm_position": _norm_position(settings, where=where),
        "norm_embedding": "n" in str(settings.get("transformer-postprocess-emb", "d")),
        "norm_epsilon": NORM_EPSILON,
        "positions": _SINUSOIDAL,
        "tie_embeddings": _tie(settings, where=where),
        "decoder_layer": "ssru" if autoregression == "rnn" else "self_attention",
        "start_embedding": "zero",
    }
    _check_norms(config["norm_position"], config["decoder_layer"], where=f"{where}: transformer-preprocess = n")
    return parse_encoder_decoder(config, where=where)


_SINUSOIDAL: Final = SinusoidalConfig(order="halves", inclusive=True)


def _require(settings: Mapping[str, Any], key: str, known: tuple[Any, ...], *, where: str, default: Any = None) -> Any:
    """Return the value of a key. Raises ConfigError if it is none of the known ones."""
    value = settings.get(key, known[0] if default is None else default)
    if not any(type(value) is type(one) and value == one for one in known):
        choices = " or ".join(str(one) if one != [] else "none" for one in known)
        raise ConfigError(
            f"{where}: {key} is {shorten_text(str(value))}, and dragoman computes {choices}. Import another model."
        )
    return value


def _norm_position(settings: Mapping[str, Any], *, where: str) -> str:
    keys = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
    defaults = ("", "dan", "")
    found = tuple(str(settings.get(key, default)).replace("d", "") for key, default in zip(keys, defaults, strict=True))
    if found not in _NORMS:
        raise ConfigError(
            f"{where}: the operations {', '.join(f'{key} = {one!r}' for key, one in zip(keys, found, strict=True))} "
            "are neither norms after nor before each sublayer. Import another model."
        )
    return _NORMS[found]


def _check_norms(position: str, decoder_layer: str, *, where: str) -> None:
    """Raise ConfigError for the decoders whose keys and values Marian computes in a way of its own."""
    if position == "pre" and decoder_layer == "self_attention":
        raise ConfigError(
            f"{where}: with norms before each sublayer, the keys and values of Marian's decoders differ from those of "
            "other programs. Use a model with norms after each sublayer, or an SSRU decoder."
        )


def _tie(settings: Mapping[str, Any], *, where: str) -> str:
    everything, source, target = (
        _require(settings, f"tied-embeddings{which}", (False, True), where=where) for which in ("-all", "-src", "")
    )
    if source and not everything:
        raise ConfigError(
            f"{where}: tied-embeddings-src shares the embeddings of both sides but not the output layer, which "
            "dragoman does not. Import another model."
        )
    return "all" if everything else "target" if target else "none"


_WRITTEN: Final[Mapping[str, Any]] = {
    **{
        key: value
        for key, value in FIXED.items()
        if key not in {"transformer-rnn-projection", "factors-dim-emb", "transformer-train-positions"}
    },
    "enc-type": "bidirectional",
    "enc-cell": "gru",
    "enc-cell-depth": 1,
    "dec-cell-high-depth": 1,
    "dim-rnn": 1024,
    "skip": False,
    "ulr-dim-emb": 0,
    "ulr-trainable-transformation": False,
    "output-omit-bias": False,
    "tied-embeddings-src": False,
    "transformer-dim-aan": 2048,
    "transformer-aan-depth": 2,
    "transformer-aan-activation": "swish",
    "transformer-aan-nogate": False,
    "transformer-guided-alignment-layer": "last",
    "bert-train-type-embeddings": True,
    "bert-type-vocab-size": 2,
    "version": "v1.9.56",
}
"""Settings that Marian requires in a file, with the values that do not depend on the network."""


def from_network(network: EncoderDecoderConfig, *, source_vocabulary: int, target_vocabulary: int) -> dict[str, Any]:
    """Return Marian's settings of a network, which `check_network` accepts."""
    pre = network.norm_position == "pre"
    ssru = network.decoder_layer == "ssru"
    return {
        **_WRITTEN,
        "dim-vocabs": [source_vocabulary, target_vocabulary],
        "dim-emb": network.d_model,
        "enc-depth": network.encoder_layers,
        "dec-depth": network.decoder_layers,
        "dec-cell": "ssru" if ssru else "gru",
        "tied-embeddings": network.tie_embeddings == "target",
        "tied-embeddings-all": network.tie_embeddings == "all",
        "transformer-heads": network.num_heads,
        "transformer-dim-ffn": network.d_ff,
        "transformer-ffn-activation": {name: key for key, name in _ACTIVATIONS.items()}[network.activation],
        "transformer-decoder-autoreg": "rnn" if ssru else "self-attention",
        "transformer-preprocess": "n" if pre else "",
        "transformer-postprocess-emb": "nd" if network.norm_embedding else "d",
        "transformer-postprocess": "da" if pre else "dan",
        "transformer-postprocess-top": "n" if pre else "",
        "transformer-train-position-embeddings": False,
    }


def check_network(network: EncoderDecoderConfig) -> None:
    """Raise ConfigError, with the setting, if Marian does not have a network."""
    needed = {
        "norm_epsilon": (network.norm_epsilon, NORM_EPSILON),
        "norm": (network.norm, "layer"),
        "bias": (network.bias, True),
        "qkv_bias": (network.qkv_bias in (None, True), True),
        "output_bias": (network.output_bias in (None, True), True),
        "gated": (network.gated, False),
        "scale_embedding": (network.scale_embedding, True),
        "scale_output": (network.scale_output, False),
        "source_eos": (network.source_eos, True),
        "start_embedding": (network.start_embedding, "zero"),
        "num_kv_heads": (network.num_kv_heads in (None, network.num_heads), True),
        "head_size": (network.head_size in (None, network.d_model // network.num_heads), True),
        "attention": (network.attention, type(network.attention)()),
    }
    for key, (value, only) in needed.items():
        if value != only:
            shown = getattr(network, key)
            if key == "norm_epsilon" and shown is None:
                shown = EPSILON[network.norm]
            raise ConfigError(
                f"model.{key} is {shorten(shown)}, and Marian has {key} = {only} alone. Train with --set "
                f"model.{key}={only}, or with the preset student-tiny."
            )
    if network.activation not in _ACTIVATIONS.values():
        raise ConfigError(f"model.activation = {network.activation}: Marian has relu and silu. Train with one of them.")
    _check_norms(network.norm_position, network.decoder_layer, where="model.norm_position = pre")
    if network.positions != _SINUSOIDAL:
        raise ConfigError(
            f"model.positions = {shorten(network.positions.model_dump())}: Marian's positions are sinusoidal with "
            "order = halves and inclusive = true. Train with the preset student-tiny."
        )
