"""`dragoman prune` as a process: the pruned run, and errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.runs.load import load, load_torch_model
from tests.small_runs import dragoman

pytestmark = pytest.mark.slow

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


def test_pruned_run_is_smaller_and_translates(folder):
    whole, smaller = (load_torch_model(path, device="cpu") for path in (RUN, folder / "smaller"))
    sizes = [sum(parameter.numel() for parameter in one.model.parameters()) for one in (smaller, whole)]
    assert sizes[0] < sizes[1]
    assert len(smaller.translate(["the small cat sleeps"], beam_size=3)) == 1
    answer = dragoman("info", "smaller", "--json", cwd=folder)
    assert json.loads(answer.stdout)["parameters"]["total"] == sizes[0]


def test_origin_is_recorded(folder):
    environment = json.loads((folder / "smaller" / "environment.json").read_text(encoding="utf-8"))
    assert environment["pruned"] == {"run": "run-1", "share": 0.34, "pairs": 4, "heads": [6, 4]}
    assert "neither trained again nor scored" in (folder / "smaller" / "README.md").read_text(encoding="utf-8")


def test_cpu_library_loads_the_pruned_run(folder):
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
    assert answer.stdout == "two dogs\n"  # the stub of the CPU library copies its source


def test_backends_translate_alike(folder):
    pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed")
    texts = (GOLDEN / "expected-1" / "source.txt").read_text(encoding="utf-8").splitlines()
    cpu, reference = load(folder / "smaller", device="cpu"), load_torch_model(folder / "smaller", device="cpu")
    assert isinstance(cpu.model, CpuBackend)
    outputs = [[one.text for one in model.translate(texts, beam_size=3)] for model in (cpu, reference)]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("run", "out", "message"),
    [
        (RUN, "smaller", "smaller: exists, and runs are never overwritten"),
        ("smaller", "smallest", "smaller: is a pruned run"),
    ],
)
def test_prune_errors(folder, run, out, message):
    answer = dragoman("prune", run, *PAIRS, "--out", out, cwd=folder)
    assert answer.returncode == 2
    assert message in answer.stderr
