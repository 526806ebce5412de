"""Load a run for a verb and check its task."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, TypeVar

from dragoman.cli.options import ComputeName

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

T = TypeVar("T")

VERBS = {
    "Translator": "translate",
    "Generator": "generate",
    "Classifier": "classify",
    "Tagger": "classify",
    "Answerer": "answer",
}
"""The verb for what a run is loaded as."""


def collect_seldom() -> None:
    """Have Python look for circles of garbage every 20,000 new objects, not every 700: what imports make is none.

    For verbs that are to begin at once and do not train: circles may hold what training gives back.
    """
    gc.set_threshold(20_000)


def load_as(
    kind: type[T],
    run: Path,
    *,
    device: str | None = None,
    compute: ComputeName = ComputeName.AUTO,
    batch_tokens: int | None = None,
    beside: Sequence[Path] | None = None,
) -> T:
    """Load a run folder on the given or the fastest device, as an ensemble with the runs `beside` it.

    Raises RunError where it is not of this kind.
    """
    from dragoman.inference.translator import BATCH_TOKENS
    from dragoman.runs.load import load

    room = batch_tokens or BATCH_TOKENS
    loaded = load(run, device=device, compute_type=compute.value, batch_tokens=room, ensemble=beside or ())
    return _of_kind(kind, run, loaded)


def load_to_look_into(kind: type[T], run: Path, *, device: str | None = None, batch_tokens: int | None = None) -> T:
    """Load a run with the PyTorch backend, whose modules can be inspected."""
    from dragoman.inference.translator import BATCH_TOKENS
    from dragoman.runs.load import load_torch_model

    return _of_kind(kind, run, load_torch_model(run, device=device, batch_tokens=batch_tokens or BATCH_TOKENS))


def _of_kind(kind: type[T], run: Path, loaded: object) -> T:
    from dragoman.errors import RunError

    if isinstance(loaded, kind):
        return loaded
    found = type(loaded).__name__
    raise RunError(
        f"{run}: is {_one(found)}, and this needs {_one(kind.__name__)}; "
        f"use it with: dragoman {VERBS.get(found, 'info')} {run}"
    )


def _one(name: str) -> str:
    word = name.lower()
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
