"""Load a run for a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.cli.options import given

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.runs.load import LoadedModel

_M = TypeVar("_M", bound="LoadedModel")


def load_as(kind: type[_M] | tuple[type[_M], ...], run: Path, *, torch_only: bool = False, **options: Any) -> _M:
    """Load a run folder as this kind, with the options of `dragoman.load` that are not None.

    With `torch_only` the PyTorch backend runs it, whose modules can be inspected.
    """
    from dragoman.runs.load import load, load_torch_model

    load_any: Any = load_torch_model if torch_only else load
    return load_any(run, kind, **given(**options))
