"""Transformer sequence models: from raw parallel text to a trained, served and inspectable network.

>>> import dragoman
>>> dragoman.load("runs/en-de").translate(["Two dogs play."], beam=5)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.runs.load import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """PyTorch is imported when `load` is first asked for, so that `import dragoman` is quick."""
    if name == "load":
        from dragoman.runs.load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
