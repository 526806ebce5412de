"""Runs: train, resume, load, evaluate, export and compare run folders."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.runs.config import read_experiment
    from dragoman.runs.environment import choose_device
    from dragoman.runs.evaluate import evaluate
    from dragoman.runs.load import load
    from dragoman.runs.train import train

__all__ = ["choose_device", "evaluate", "load", "read_experiment", "train"]
_MODULES = {"choose_device": "environment", "read_experiment": "config"}


def __getattr__(name: str) -> Any:
    """Import on first use: most modules import PyTorch, which takes a second."""
    if name in __all__:
        return getattr(import_module(f"dragoman.runs.{_MODULES.get(name, name)}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
