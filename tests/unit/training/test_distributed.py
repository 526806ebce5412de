"""Several workers are one, as real processes: losses of 50 updates, weights at the end, and what is gone on with."""

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

from dragoman.data.batching import collate
from dragoman.data.store import TokenStore
from dragoman.shapes import Structure
from dragoman.training.distributed import ALONE, Team
from tests.team_training import Options, as_json, trained

ROOT = Path(__file__).parents[3]


Reached = dict[str, Any]


def together(folder: Path, several: dict[str, Options], *, workers: int) -> dict[str, Reached]:
    """What trainings reached, by so many processes that torchrun starts."""
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)),
            *("-m", "tests.team_training", str(folder), as_json(several)),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def differ(one: Reached, other: Reached) -> float:
    """How far two trainings are apart at most: losses, weights and moving averages.

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
def alone(place) -> dict[str, Reached]:
    """By this process: what others are compared with, and the first part of a training that others go on with."""
    several = {"whole": Options(), "accumulated": Options(accumulate=3), **begun("one")}
    return {name: trained(place / "alone" / name, options, ALONE) for name, options in several.items()}


@pytest.fixture(scope="module")
def two(place) -> dict[str, Reached]:
    several = {
        "whole": Options(),
        "accumulated": Options(accumulate=3),
        "shards": Options(sharding=True),
        "accumulated shards": Options(accumulate=3, sharding=True),
        "shards computed again": Options(recompute=True, sharding=True),
        **begun("two"),
    }
    return together(place / "two", several, workers=2)


def begun(by: str) -> dict[str, Options]:
    return {f"begun by {by}": Options(updates=30), f"begun by {by} for shards": Options(updates=30, sharding=True)}


@pytest.mark.parametrize("name", ["whole", "accumulated"])
def test_the_trainings_are_worth_comparing(alone, name):
    losses = alone[name]["losses"]
    assert len(losses) == 50
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("whole", "whole"),
        ("shards", "whole"),
        ("shards computed again", "whole"),
        ("accumulated", "accumulated"),
        ("accumulated shards", "accumulated"),
    ],
)
def test_two_workers_are_one(alone, two, name, same):
    assert differ(two[name], alone[same]) < 1e-5


def test_blocks_computed_again_are_the_same(alone, place):
    assert differ(trained(place / "again", Options(recompute=True), ALONE), alone["whole"]) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["begun by two", "begun by two for shards"])
def test_one_goes_on_where_two_began(alone, two, place, name, tmp_path):
    shutil.copytree(place / "two" / name / "checkpoints", tmp_path / "checkpoints")
    rest = trained(tmp_path, Options(), ALONE)
    assert gone_on(two[name], rest, alone["whole"]) < 1e-5


@pytest.mark.slow
def test_three_go_on_where_one_or_two_began(alone, two, place, tmp_path):
    """With shards, or without."""
    first = {name: reached for name, reached in {**alone, **two}.items() if name.startswith("begun")}
    for name in first:
        began = place / ("alone" if name in alone else "two") / name
        shutil.copytree(began / "checkpoints", tmp_path / name / "checkpoints")
    rest = together(tmp_path, {name: Options(sharding="shards" in name) for name in first}, workers=3)
    for name in first:
        assert gone_on(first[name], rest[name], alone["whole"]) < 1e-5


def gone_on(first: Reached, rest: Reached, whole: Reached) -> float:
    """How far a training in two parts is from one that was never interrupted."""
    assert len(rest["losses"]) == 20
    return differ(rest | {"losses": first["losses"] + rest["losses"]}, whole)


ROWS = [([4, 5], [6]), ([7], [8, 9, 10]), ([11], [12])]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_row_is_one_worker_s(size, tmp_path):
    batch = collate(TokenStore.build(tmp_path / "store", ROWS), np.array([2, 0, 1]))
    parts = [Team(rank, size).part(batch) for rank in range(size)]
    assert [counts for _, counts in parts] == [1.0] * size
    assert sorted(int(row) for part, _ in parts for row in part.rows) == [0, 1, 2]
    for part, _ in parts:
        for place, row in enumerate(part.rows.tolist()):
            assert part.source[place, : part.source_lengths[place] - 1].tolist() == ROWS[row][0]
            assert part.expected[place, : part.target_lengths[place] - 1].tolist() == ROWS[row][1]


def test_a_worker_without_a_row_computes_one_that_does_not_count(tmp_path):
    batch = collate(TokenStore.build(tmp_path / "store", ROWS), np.array([2, 0, 1]))
    part, counts = Team(4, 5).part(batch)
    assert counts == 0.0
    assert len(part) == 1


def test_trees_are_shared_with_their_rows(tmp_path):
    batch = collate(TokenStore.build(tmp_path / "store", ROWS), np.array([2, 0, 1]))
    trees = Structure(words=batch.source, heads=torch.arange(12).view(3, 4))
    part, _ = Team(1, 2).part(replace(batch, structure=trees))
    assert part.structure is not None
    assert part.structure.heads.tolist() == [[4, 5, 6, 7]]
