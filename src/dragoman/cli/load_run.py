"""Load a run for a verb and check its task."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.cli.options import given
from dragoman.errors import RunError, quote

if TYPE_CHECKING:
    from pathlib import Path

_T = TypeVar("_T")

VERBS = {
    "Translator": "translate",
    "Generator": "generate",
    "Classifier": "classify",
    "Tagger": "classify",
    "QuestionAnswerer": "answer",
}
"""Verb for each type that a run is loaded as."""


def load_as(kind: type[_T] | tuple[type[_T], ...], run: Path, *, torch_only: bool = False, **options: Any) -> _T:
    """Load a run folder with the options of `dragoman.load` that are not None, and check its type.

    With `torch_only` the PyTorch backend runs it, whose modules can be inspected. Raises RunError on another type.
    """
    from dragoman.runs.load import load, load_torch_model

    loaded = (load_torch_model if torch_only else load)(run, **given(**options))
    if isinstance(loaded, kind):
        return loaded
    names = [one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,))]
    name = type(loaded).__name__
    raise RunError(
        f"{run}: is {_with_article(name)}, and this verb needs {' or '.join(map(_with_article, names))}. "
        f"Use it with: dragoman {VERBS.get(name, 'info')} {quote(run)}"
    )


def _with_article(name: str) -> str:
    """Return a class name as words: `a question answerer`."""
    return "a " + re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
