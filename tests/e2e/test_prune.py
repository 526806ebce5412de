"""`dragoman prune` as a process: the smaller run is a run like any other, and what cannot be pruned is said."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.runs.load import load, load_torch_model
from tests.small_runs import dragoman

GOLDEN = Path(__file__).parents[1] / "golden"
RUN = GOLDEN / "run-1"
PAIRS = ["--source", GOLDEN / "expected-1" / "source.txt", "--target", GOLDEN / "expected-1" / "target.txt"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prune")
    answer = dragoman("prune", RUN, "--heads", 0.34, *PAIRS, "--out", "smaller", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "smaller: 4 of 6 heads" in answer.stderr
    return folder


def test_the_smaller_run_is_smaller_and_is_used_like_any_other(folder):
    whole, smaller = (load_torch_model(path, device="cpu") for path in (RUN, folder / "smaller"))
    sizes = [sum(parameter.numel() for parameter in one.model.parameters()) for one in (smaller, whole)]
    assert sizes[0] < sizes[1]
    assert len(smaller.translate(["the small cat sleeps"], beam=3)) == 1
    answer = dragoman("info", "smaller", "--json", cwd=folder)
    assert json.loads(answer.stdout)["parameters"]["total"] == sizes[0]


def test_where_it_came_from_is_written(folder):
    environment = json.loads((folder / "smaller" / "environment.json").read_text(encoding="utf-8"))
    assert environment["pruned"] == {"run": "run-1", "share": 0.34, "pairs": 4, "heads": [6, 4]}
    assert "It was not trained again" in (folder / "smaller" / "README.md").read_text(encoding="utf-8")


def test_the_compiled_core_is_given_it_like_any_other(folder):
    stubs = Path(__file__).parents[1] / "stubs"
    paths = os.pathsep.join([str(stubs), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "dragoman", "translate", "smaller", "--device", "cpu"]
    answer = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        input="two dogs\n",
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "two dogs\n"  # what the stand-in for the core copies


def test_on_every_road_it_translates_alike(folder):
    pytest.importorskip("dragoman_cpu", reason="the compiled core is not installed")
    texts = (GOLDEN / "expected-1" / "source.txt").read_text(encoding="utf-8").splitlines()
    compiled, reference = load(folder / "smaller", device="cpu"), load_torch_model(folder / "smaller", device="cpu")
    assert isinstance(compiled.model, CpuBackend)
    assert compiled.translate(texts, beam=3) == reference.translate(texts, beam=3)


@pytest.mark.parametrize(
    ("run", "out", "message"),
    [
        (RUN, "smaller", "smaller: exists already"),
        ("smaller", "smallest", "smaller: was pruned already"),
    ],
)
def test_what_the_person_can_mend(folder, run, out, message):
    answer = dragoman("prune", run, *PAIRS, "--out", out, cwd=folder)
    assert answer.returncode == 2
    assert message in answer.stderr
