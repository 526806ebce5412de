"""Runs: train, resume, load, evaluate, export and compare run folders."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.device import choose_device
    from dragoman.runs.config import read_experiment
    from dragoman.runs.model_card import summarize_model

__all__ = ["choose_device", "read_experiment", "summarize_model"]
_MODULES = {
    "choose_device": "dragoman.device",
    "read_experiment": "dragoman.runs.config",
    "summarize_model": "dragoman.runs.model_card",
}


def __getattr__(name: str) -> Any:
    """Import on first use: these modules import PyTorch, which takes a second."""
    if name in __all__:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
