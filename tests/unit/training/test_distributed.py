"""Several worker processes train as one: losses of 50 steps, final weights, and resumed runs."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.array_types import SourceFeatures
from dragoman.data.batching.token_budget_batches import collate
from dragoman.data.datasets.parallel import TokenStore
from dragoman.errors import ConfigError
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup
from dragoman.training.fsdp import enable_gradient_checkpointing
from tests.worker_training import FIRST, Options, as_json, train_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


Results = dict[str, Any]
CONSISTENT = Options(updates=20, consistent=True)
"""R-Drop, with two forward passes before the backward pass."""
ORTHOGONAL = Options(updates=20, muon=True)
"""Muon, whose step depends on a whole matrix."""


def train_with_torchrun(folder: Path, several: dict[str, Options], *, workers: int) -> dict[str, Results]:
    """Return the results of trainings with this number of processes, started by torchrun."""
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)),
            *("-m", "tests.worker_training", str(folder), as_json(several)),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def max_difference(one: Results, other: Results) -> float:
    """Return the largest difference between losses, weights and moving averages of two trainings.

    The bias of keys adds the same to all scores of a query. Its gradient is rounding, whose sign is all Adam follows.
    """
    assert len(one["losses"]) == len(other["losses"])
    apart = [abs(a - b) for a, b in zip(one["losses"], other["losses"], strict=True)]
    for kind in ("weights", "average"):
        assert one[kind].keys() == other[kind].keys()
        for name in one[kind]:
            if not name.endswith("key.bias"):
                apart += [abs(a - b) for a, b in zip(one[kind][name], other[kind][name], strict=True)]
    return max(apart)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("teams")


@pytest.fixture(scope="module")
def alone(place) -> dict[str, Results]:
    """Return the results of trainings in this process."""
    several = {
        "whole": Options(),
        "accumulated": Options(accumulate=2),
        "consistent": CONSISTENT,
        "orthogonal": ORTHOGONAL,
    }
    return {name: train_run(place / "alone" / name, options, SINGLE_WORKER) for name, options in several.items()}


@pytest.fixture(scope="module")
def two(place) -> dict[str, Results]:
    several = {
        "whole": Options(),
        "accumulated": Options(accumulate=2),
        "shards": Options(sharding=True),
        "accumulated shards": Options(accumulate=2, sharding=True),
        "consistent shards computed again": replace(CONSISTENT, recompute=True, sharding=True),
        "orthogonal": ORTHOGONAL,
        "orthogonal shards": replace(ORTHOGONAL, sharding=True),
    }
    return train_with_torchrun(place / "two", several, workers=2)


@pytest.mark.parametrize("name", ["whole", "accumulated"])
def test_losses_fall_and_weights_move(alone, name):
    losses = alone[name]["losses"]
    assert len(losses) == 50
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("whole", "whole"),
        ("shards", "whole"),
        ("accumulated", "accumulated"),
        ("accumulated shards", "accumulated"),
        ("consistent shards computed again", "consistent"),
        ("orthogonal", "orthogonal"),
        ("orthogonal shards", "orthogonal"),
    ],
)
def test_two_workers_equal_one(alone, two, name, same):
    assert max_difference(two[name], alone[same]) < 1e-5


def test_gradient_checkpointing_changes_no_number(alone, place):
    assert max_difference(train_run(place / "again", Options(recompute=True), SINGLE_WORKER), alone["whole"]) < 1e-5


@pytest.mark.parametrize("name", ["whole", "shards"])
def test_one_worker_resumes_a_run_of_two(alone, two, place, name, tmp_path):
    copy_first_checkpoint(place / "two" / name, tmp_path)
    assert resumed_difference(two[name], train_run(tmp_path, Options(), SINGLE_WORKER), alone["whole"]) < 1e-5


def test_three_workers_resume_runs_of_one_or_two(alone, two, place, tmp_path):
    """Resume sharded and unsharded runs."""
    first = {"alone/whole": alone["whole"], "two/whole": two["whole"], "two/shards": two["shards"]}
    for name in first:
        copy_first_checkpoint(place / name, tmp_path / name)
    rest = train_with_torchrun(tmp_path, {name: Options(sharding=name != "two/whole") for name in first}, workers=3)
    for name in first:
        assert resumed_difference(first[name], rest[name], alone["whole"]) < 1e-5


def copy_first_checkpoint(run: Path, folder: Path) -> None:
    """Copy the first checkpoint of a finished run to a new run."""
    shutil.copytree(run / "checkpoints", folder / "checkpoints")
    shutil.rmtree(folder / "checkpoints" / "000000050")


def resumed_difference(first: Results, rest: Results, whole: Results) -> float:
    """Return the largest difference between a training in two parts and an uninterrupted one."""
    assert len(rest["losses"]) == 50 - FIRST
    return max_difference(rest | {"losses": first["losses"][:FIRST] + rest["losses"]}, whole)


ROWS = [([4, 5], [6]), ([7], [8, 9, 10]), ([11], [12])]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_row_belongs_to_one_worker(size, tmp_path):
    batch = collate(TokenStore.build(tmp_path / "store", ROWS), np.array([2, 0, 1]))
    parts = [WorkerGroup(rank, size).own_part(batch) for rank in range(size)]
    assert [weight for _, _, weight in parts] == [1.0] * size
    assert sorted(int(row) for part, _, _ in parts for row in part.rows) == [0, 1, 2]
    for part, _, _ in parts:
        for place, row in enumerate(part.rows.tolist()):
            assert part.source[place, : part.source_lengths[place] - 1].tolist() == ROWS[row][0]
            assert part.labels[place, : part.target_lengths[place] - 1].tolist() == ROWS[row][1]


def test_worker_without_rows_has_weight_zero(tmp_path):
    batch = collate(TokenStore.build(tmp_path / "store", ROWS), np.array([2, 0, 1]))
    part, _, weight = WorkerGroup(4, 5).own_part(batch)
    assert weight == 0.0
    assert len(part) == 1


def test_source_features_are_split_with_their_rows(tmp_path):
    batch = collate(TokenStore.build(tmp_path / "store", ROWS), np.array([2, 0, 1]))
    trees = SourceFeatures(words=batch.source, heads=torch.arange(12).view(3, 4))
    part, _, _ = WorkerGroup(1, 2).own_part(replace(batch, source_features=trees))
    assert part.source_features is not None
    assert part.source_features.heads.tolist() == [[4, 5, 6, 7]]


def test_gradient_checkpointing_needs_blocks() -> None:
    with pytest.raises(ConfigError, match=r"training\.gradient_checkpointing = true needs a Transformer; leave it out"):
        enable_gradient_checkpointing(torch.nn.LSTM(3, 5))
