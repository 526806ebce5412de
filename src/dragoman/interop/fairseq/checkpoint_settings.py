"""Settings in a fairseq checkpoint: `args` of a command line, or `cfg` with groups, and the network they describe."""

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, final

from dragoman.errors import ConfigError, DataError, shorten
from dragoman.interop.fairseq.setting_keys import ACTIVATIONS, KEYS, is_of_network
from dragoman.interop.imported_model import parse_encoder_decoder
from dragoman.interop.key_table import check_keys
from dragoman.interop.plain_settings import plain_value
from dragoman.models.config import EncoderDecoderConfig

_EQUAL: Final = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before", "learned_pos")
"""Settings that encoder and decoder share here."""
PAST_PADDING: Final = 2
"""Number of the first position: positions count from that of the padding symbol, 1, which is never used."""


@final
class CheckpointSettings:
    """Settings of a checkpoint by name, in whichever group they are."""

    def __init__(self, path: Path, tree: Mapping[str, Any]) -> None:
        """Collect the settings. Raises DataError if there are none."""
        self.path = path
        self._groups = [_as_mapping(tree.get("args")), *_config_groups(tree.get("cfg"))]
        if not any(self._groups):
            raise DataError(f"{path}: has no settings (args or cfg). Is it a checkpoint of fairseq?")

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting; `default` if it is missing or null."""
        found = (group[name] for group in self._groups if group.get(name) is not None)
        return next(found, default)

    def text(self, name: str) -> str | None:
        """Return a setting that is text or missing. Raises DataError for other values."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise DataError(f"{self.path}: the setting {name} is {shorten(value)}, and not a text.")
        return value

    def to_json(self) -> dict[str, Any]:
        """Return the plain settings for the record of the origin."""
        return {name: one for name, one in sorted(self.all().items()) if isinstance(one, str | int | float | bool)}

    def all(self) -> dict[str, Any]:
        """Return every setting, of the first group that has it."""
        return {name: value for group in reversed(self._groups) for name, value in group.items()}


def read_network(
    settings: CheckpointSettings, *, needs_output_bias: bool, allow_unused: Collection[str] = ()
) -> EncoderDecoderConfig:
    """Return the network of a checkpoint. Raises ConfigError if dragoman does not compute it."""
    architecture = str(settings.get("arch", settings.get("_name", "transformer")))
    task = settings.text("task") if isinstance(settings.get("task"), str) else None
    if not architecture.startswith("transformer") or "lm" in architecture.split("_"):
        raise _unsupported(settings, "arch", architecture)
    if task not in (None, "translation"):
        raise _unsupported(settings, "task", task)
    of_network = {name: value for name, value in settings.all().items() if is_of_network(name)}
    check_keys(of_network, KEYS, where=f"{settings.path}: ", allow_unused=allow_unused)
    for name in _EQUAL:
        sides = [settings.get(f"{side}_{name}") for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            raise _unsupported(settings, f"decoder_{name}", sides[1], f"the encoder has {shorten(sides[0])}")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if settings.get(name, settings.get("decoder_embed_dim")) != settings.get("decoder_embed_dim"):
            raise _unsupported(settings, name, settings.get(name))
    tree = {
        "d_model": settings.get("encoder_embed_dim"),
        "d_ff": settings.get("encoder_ffn_embed_dim"),
        "num_heads": settings.get("encoder_attention_heads"),
        "encoder_layers": settings.get("encoder_layers"),
        "decoder_layers": settings.get("decoder_layers"),
        "activation": ACTIVATIONS.get(settings.get("activation_fn", "relu"), settings.get("activation_fn")),
        "norm_position": "pre" if settings.get("encoder_normalize_before") else "post",
        "norm_embedding": bool(settings.get("layernorm_embedding", False)),
        "scale_embedding": not settings.get("no_scale_embedding", False),
        "positions": _positions(settings),
        "tie_embeddings": _tied(settings),
        "output_bias": needs_output_bias,
    }
    return parse_encoder_decoder(tree, where=str(settings.path))


def max_length(settings: CheckpointSettings) -> int:
    """Return the longest source or target, end symbol included. Raises DataError for other values than numbers."""
    limits = [settings.get(f"max_{side}_positions", 1024) for side in ("source", "target")]
    if not all(type(limit) is int and 8 <= limit <= 1_000_000 for limit in limits):
        raise DataError(f"{settings.path}: max_source_positions and max_target_positions are {shorten(limits)}.")
    return int(min(limits))


def _positions(settings: CheckpointSettings) -> dict[str, Any]:
    if settings.get("no_token_positional_embeddings", False):
        return {"kind": "none"}
    if settings.get("encoder_learned_pos", False):
        return {"kind": "learned", "max_length": max_length(settings), "offset": PAST_PADDING}
    return {"kind": "sinusoidal", "order": "halves", "inclusive": True, "offset": PAST_PADDING}


def _tied(settings: CheckpointSettings) -> str:
    if settings.get("share_all_embeddings", False):
        return "all"
    return "target" if settings.get("share_decoder_input_output_embed", False) else "none"


def _unsupported(settings: CheckpointSettings, name: str, value: Any, reason: str = "") -> ConfigError:
    because = f", and {reason}" if reason else ""
    return ConfigError(
        f"{settings.path}: its setting {name} is {shorten(value)}{because}. dragoman reads translation Transformers of "
        "fairseq whose encoder and decoder have the same sizes, without this option."
    )


def _config_groups(tree: Any) -> list[dict[str, Any]]:
    """Return the groups of settings of a `cfg`, the model first."""
    groups = tree if isinstance(tree, Mapping) else {}
    return [_as_mapping(groups.get(name)) for name in ("model", "task", "generation", "common") if name in groups]


def _as_mapping(tree: Any) -> dict[str, Any]:
    found = vars(tree) if isinstance(tree, argparse.Namespace) else tree
    return {str(name): plain_value(value) for name, value in found.items()} if isinstance(found, Mapping) else {}
