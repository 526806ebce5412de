"""Trainings and preparations after a power cut end as if there had been none."""

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

import dragoman
from dragoman.data.preprocessing.pipeline import run_sequentially
from dragoman.errors import RunError
from dragoman.runs import prepare_corpus as prepare_corpus_module
from dragoman.runs.folder import RunFolder
from dragoman.runs.prepare_corpus import PreparationConfig, prepare_corpus, resolve_preparation
from dragoman.runs.train import resume
from tests.e2e.test_resume import differences
from tests.power_cuts import DiskState, recorded_disk
from tests.property_settings import FAST, FULL
from tests.small_runs import SMALLEST, hashes, write_corpus

pytestmark = pytest.mark.slow

CUTS = 1000 if FULL else 5 if FAST else 25
"""States of the disk after which a training or preparation continues; the full tier has all of them."""


def sample(states: Sequence[DiskState]) -> list[DiskState]:
    """Return states after the first and the last write, and others in between, in order."""
    inner = sorted(random.Random(3).sample(range(1, len(states) - 1), min(CUTS, len(states)) - 2))
    return [states[place] for place in (0, *inner, -1)]


def train_or_resume(folder: Path) -> None:
    """Do what a user would do after a restart of the machine."""
    run = RunFolder(folder / "run")
    if not run.config.exists():
        settings = {"source": folder / "train.en", "target": folder / "train.de"}
        dragoman.train(**settings, output_dir=run.path, overrides=SMALLEST | {"training.keep_checkpoints": 2})
    elif not run.is_finished():
        resume(run.path)


def test_training_after_a_power_cut_is_the_same(tmp_path, monkeypatch):
    place = tmp_path / "disk"
    place.mkdir()
    write_corpus(place)
    monkeypatch.chdir(place)  # a run names its corpora by relative paths
    monkeypatch.setenv("DRAGOMAN_CACHE", "cache")
    with recorded_disk(place) as states:
        train_or_resume(Path())
    assert len(states) > 50
    place.rename(tmp_path / "whole")
    on_disk = list[int]()
    for number, state in enumerate(sample(states)):
        state.restore(place)
        monkeypatch.chdir(place)
        on_disk.append(RunFolder(Path("run")).last_step() or 0)
        train_or_resume(Path())
        for path in place.rglob("optimizer.safetensors"):  # deleted without fsync, so that it may come back
            if not (tmp_path / "whole" / path.relative_to(place)).exists():
                path.unlink()
        assert differences(tmp_path / "whole", place) == [], number
        place.rename(tmp_path / f"cut{number}")
    assert on_disk == sorted(on_disk)
    assert on_disk[-1] == SMALLEST["training.max_steps"]
    assert len(set(on_disk)) > 2


def prepare() -> None:
    train = {"kind": "files", "source": "train.en", "target": "train.de"}
    tree = {"data": {"train": train}, "tokenizer": {"vocab_size": 300}}
    experiment, choose = resolve_preparation(tree, complete=False)
    config = PreparationConfig(experiment, run_sequentially, choose, block_size=97)
    prepare_corpus(config, Path("ready"), report=lambda _: None)


def test_preparation_after_a_power_cut_is_the_same(tmp_path, monkeypatch):
    place = tmp_path / "disk"
    place.mkdir()
    write_corpus(place)
    monkeypatch.chdir(place)
    with recorded_disk(place) as states:
        prepare()
    assert len(states) > 50
    place.rename(tmp_path / "whole")
    expected = hashes(tmp_path / "whole" / "ready")
    for number, state in enumerate(sample(states)):
        state.restore(place)
        monkeypatch.chdir(place)
        if not Path("ready").exists():
            prepare()
        assert hashes(place / "ready") == expected, number
        place.rename(tmp_path / f"cut{number}")


def test_killed_preparation_leaves_no_temporary_file(tmp_path, monkeypatch):
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(prepare_corpus_module, "tokenize_shards", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prepare()
    [work] = tmp_path.glob(".ready.*.tmp")
    for name in (".ids.1.tmp", "shards/00000/.ids.1.tmp"):  # as new_folder leaves them when it is killed
        (work / name).mkdir()
        (work / name / "source.values").write_bytes(b"1")
    prepare()
    assert list(Path("ready").rglob(".*")) == []


def test_preparation_on_a_full_disk_continues(tmp_path, monkeypatch):
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    original = os.fsync

    def fsync(descriptor: int) -> None:
        if list(tmp_path.glob(".ready.*.tmp/shards/00001")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(RunError, match=r"No space left on device.*; free some space and run again"):
            prepare()
    [work] = tmp_path.glob(".ready.*.tmp")
    blocks = work / "blocks" / "00000.json"
    written = blocks.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(prepare_corpus_module, "remove_intermediate_files", lambda _: None)
        prepare()
    assert (Path("ready") / "blocks" / "00000.json").stat().st_mtime_ns == written
