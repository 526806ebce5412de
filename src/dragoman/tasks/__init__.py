"""Tasks: data, training setup and loading of each kind of model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.tasks.factory import build_task
    from dragoman.tasks.translation import build_torch_ensemble

__all__ = ["build_task", "build_torch_ensemble"]
_MODULES = {"build_task": "factory", "build_torch_ensemble": "translation"}


def __getattr__(name: str) -> Any:
    """Import on first use, with PyTorch."""
    if name in __all__:
        return getattr(import_module(f"dragoman.tasks.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
