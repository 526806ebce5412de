"""Continuation of a training with the workers and threads that it started with."""

import json

import pytest
import torch

import dragoman
from dragoman.runs.folder import RunFolder
from dragoman.runs.train import resume
from dragoman.training.callbacks import SilentReporter
from tests.small_tasks import config_of, write_texts


class Lines:
    """Reporter that keeps what a training says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def show_line(self, text: str) -> None:
        self.said.append(text)

    def show_environment_changes(self, changes: list[str]) -> None:
        self.said += changes

    def __getattr__(self, name: str) -> object:
        return getattr(SilentReporter, name)


@pytest.fixture
def cores(monkeypatch):
    """Two cores for this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("cores")
def test_longer_training_keeps_the_threads_of_the_run(tmp_path):
    write_texts(tmp_path)
    run = RunFolder(tmp_path / "run")
    dragoman.train(config_of("classification", tmp_path), output_dir=run.path, max_steps=1)
    first = run.read_environment()
    other = {"threads": 3 - first["threads"], "cpu_ops": "none" if first["threads"] == 1 else first["cpu_ops"]}
    run.environment.write_text(json.dumps(first | other), encoding="utf-8")
    kept = Lines()
    result = resume(run.path, overrides={"training.max_steps": 2}, reporter=kept)
    assert (result.steps, result.resumed_step) == (2, 1)
    assert any(line.startswith(f"training: 1 worker with {other['threads']} thread") for line in kept.said)
    assert not any(line.startswith("threads ") for line in kept.said)
    run.environment.write_text(json.dumps(first | {"threads": 99}), encoding="utf-8")
    impossible = Lines()
    resume(run.path, overrides={"training.max_steps": 3}, reporter=impossible)
    assert f"threads 99 then, {first['threads']} now" in impossible.said
