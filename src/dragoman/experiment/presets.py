"""Models by name, derived from one another. A preset lies under what a configuration says for itself."""

import difflib
from typing import Any

from dragoman.config import Tree, merge
from dragoman.errors import ConfigError


def _model(**choices: Any) -> Tree:
    return {"model": choices}


_BASE = merge(
    _model(size=512, encoder_layers=6, decoder_layers=6, heads=8, feed_forward=2048),
    {
        "training": {
            "optimiser": {"kind": "adam", "learning_rate": 0.0007},
            "schedule": {"kind": "inverse_sqrt", "warmup": 4000},
        }
    },
)
_SMALL = merge(
    merge(_BASE, _model(size=256, heads=4, feed_forward=1024)),
    {"training": {"optimiser": {"kind": "adam", "learning_rate": 0.0015}}},
)
_TINY = merge(
    merge(_SMALL, _model(size=128, encoder_layers=4, decoder_layers=4, feed_forward=256)),
    {
        "training": {
            "optimiser": {"kind": "adam", "learning_rate": 0.004},
            "schedule": {"kind": "inverse_sqrt", "warmup": 1000},
        }
    },
)
PRESETS: dict[str, Tree] = {
    "nano": merge(_TINY, _model(size=96, encoder_layers=2, decoder_layers=2)),
    "tiny": _TINY,
    "small": _SMALL,
    "base": _BASE,
    "big": merge(_BASE, _model(size=1024, heads=16, feed_forward=4096)),
    "deep-shallow": merge(_BASE, _model(encoder_layers=12, decoder_layers=2)),
}


def preset_tree(name: object) -> Tree:
    """The choices of a preset; raises ConfigError with the nearest name for an unknown one."""
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    near = difflib.get_close_matches(str(name), PRESETS, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(PRESETS)}."
    raise ConfigError(f"preset: {name!r} is not known. {hint}")
