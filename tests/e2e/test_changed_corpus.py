"""A corpus that changes during a training: an error, or the weights of the text whose fingerprint is recorded."""

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path

import pytest

import dragoman
from dragoman.errors import DataError, RunError
from dragoman.runs.folder import RunFolder
from dragoman.runs.train import resume
from dragoman.training.callbacks import Event, SilentReporter
from tests.small_tasks import config_of, write_texts

pytestmark = pytest.mark.slow

FILES = {
    "translation": ("train.en", "train.de"),
    "language_modeling": ("running.txt",),
    "classification": ("labeled.txt",),
}
"""Corpora of each task."""


class ChangingReporter:
    """Reporter that calls a function once: at a status message, by number, or when the training starts."""

    def __init__(self, change: Callable[[], None], *, at: int | None) -> None:
        self._messages = count()
        self._changes = {at: change}

    def status(self) -> AbstractContextManager[Callable[[str], None]]:
        return nullcontext(lambda _: self._reach(next(self._messages)))

    def callback(self, unit: str) -> AbstractContextManager[Callable[[Event], None]]:
        return nullcontext(lambda _: self._reach(None))

    def _reach(self, place: int | None) -> None:
        self._changes.pop(place, lambda: None)()

    def __getattr__(self, name: str) -> object:
        return getattr(SilentReporter, name)


def reverse_lines(folder: Path, names: tuple[str, ...]) -> None:
    """Reverse the lines of the corpora, so that their sizes stay the same."""
    for path in (folder / name for name in names):
        path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[::-1]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("task", FILES)
def test_weights_are_those_of_the_recorded_text(tmp_path, monkeypatch, task):
    write_texts(tmp_path)
    names = FILES[task]
    config = config_of(task, tmp_path)

    def change() -> None:
        reverse_lines(tmp_path, names)

    def train(output: Path, at: int | None, change: Callable[[], None] = change) -> tuple[str, bytes]:
        """Return the fingerprint of the first corpus and the weights."""
        monkeypatch.setenv("DRAGOMAN_CACHE", f"{output}.cache")
        dragoman.train(config, output_dir=output, reporter=ChangingReporter(change, at=at))
        corpora = json.loads((output / "environment.json").read_text(encoding="utf-8"))["corpora"]
        return corpora[0]["sha256"], (output / "model.safetensors").read_bytes()

    expected = {}
    for name in ("one", "other"):
        digest, weights = train(tmp_path / name, 0, change=lambda: None)
        assert digest == hashlib.sha256((tmp_path / names[0]).read_bytes()).hexdigest()
        expected[digest] = weights
        change()
    noticed = 0
    for at in (0, 1, None):
        try:
            digest, weights = train(tmp_path / f"changed{at}", at)
        except DataError as error:
            assert "has changed while it was read" in str(error)  # noqa: PT017  # either result is right
            noticed += 1
        else:
            assert weights == expected[digest]
    assert noticed < 3
    changed = RunFolder(tmp_path / "changedNone")
    if changed.path.exists() and hashlib.sha256((tmp_path / names[0]).read_bytes()).hexdigest() != digest:
        with pytest.raises(RunError, match="has changed since the run"):
            resume(changed.path, overrides={"training.max_steps": 11})
