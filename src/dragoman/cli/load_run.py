"""Load a run for a verb."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.cli import messages
from dragoman.cli.options import given
from dragoman.cli.text_io import COMPRESSED

if TYPE_CHECKING:
    from dragoman.runs.load import LoadedModel

_M = TypeVar("_M", bound="LoadedModel")


def load_as(kind: type[_M] | tuple[type[_M], ...], run: Path, *, torch_only: bool = False, **options: Any) -> _M:
    """Load a run folder as this kind, with the options of `dragoman.load` that are not None.

    With `torch_only` the PyTorch backend runs it, whose modules can be inspected.
    """
    from dragoman.runs.load import load, load_torch_model

    load_any: Any = load_torch_model if torch_only else load
    return load_any(run, kind, **given(**options))


def warn_of_exchanged_sides(run: Path, source: str | Path, target: str | Path) -> None:
    """Warn if the endings of two files, such as `.en`, are those of the other sides of the training files of a run."""
    from dragoman.runs.folder import RunFolder

    folder = RunFolder(run)
    data = folder.read_raw_config().get("data") if folder.config.is_file() else None
    train = data.get("train") if isinstance(data, dict) else None
    sides = (train.get("source"), train.get("target")) if isinstance(train, dict) else (None, None)
    if not all(isinstance(side, str) for side in sides):
        return
    trained, tested = [[_ending(name) for name in names] for names in (sides, (source, target))]
    if trained[0] != trained[1] and tested == trained[::-1]:
        messages.show_warning(
            f"{run} translates from {trained[0]} to {trained[1]}, as its training files are named, and {source} and "
            f"{target} are named the other way round. Exchange them."
        )


def _ending(name: object) -> str:
    """Return the ending of a file name, without that of a compression."""
    path = Path(str(name))
    return (path.with_suffix("") if path.suffix in COMPRESSED else path).suffix
