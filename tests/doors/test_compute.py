"""`dragoman translate` through the core and `dragoman export`, as processes; the core is a stand-in that copies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.finished_runs import finished_run, finished_writer

STUBS = Path(__file__).parents[1] / "stubs"
TEXT = "two dogs play .\n\na cat sits by the sea\n"


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run").path


def process(*arguments: object, cwd: Path, text: str = "", packages: Path = STUBS) -> subprocess.CompletedProcess[str]:
    paths = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )


PROGRAM = """
import sys
from dragoman.cli.main import run
status = run(sys.argv[1:], debug=True)
print("torch" in sys.modules, file=sys.stderr)
sys.exit(status)
"""


def test_translating_through_the_core_leaves_torch_alone(run, tmp_path):
    answer = process("-c", PROGRAM, "translate", run, "--device", "cpu", cwd=tmp_path, text=TEXT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == TEXT
    assert answer.stderr == "False\n"


def test_a_run_is_exported_described_and_translated_with(run, tmp_path):
    told = process("-m", "dragoman", "export", run, "--compute", "int8", "--out", "model", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("model: int8 weights, 0.0 MiB")
    facts = process("-m", "dragoman", "info", "model", "--json", cwd=tmp_path)
    assert json.loads(facts.stdout)["compute"] == "int8"
    assert json.loads(facts.stdout)["bytes"]["weights"] == (tmp_path / "model" / "model.safetensors").stat().st_size
    answer = process("-c", PROGRAM, "translate", "model", "--device", "cpu", cwd=tmp_path, text=TEXT)
    assert (answer.stdout, answer.stderr) == (TEXT, "False\n")
    again = process("-m", "dragoman", "export", run, "--out", "model", cwd=tmp_path)
    assert again.returncode == 2
    assert "never overwritten" in again.stderr


def test_a_core_that_cannot_be_loaded_costs_one_line_and_no_more(run, tmp_path):
    package = tmp_path / "packages" / "dragoman_cpu"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import numpy\nfrom . import _core\n", encoding="utf-8")
    (package / "_core.so").write_bytes(b"this is no program")
    asked = ["-m", "dragoman", "translate", run, "--device", "cpu", "--max-length", 5, "--beam", 1]
    answer = process(*asked, cwd=tmp_path, text=TEXT, packages=package.parent)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("\n") == 3
    about = [line for line in answer.stderr.splitlines() if "reached its longest" not in line]
    assert len(about) == 1
    assert "is computed by PyTorch: the compiled core is there and cannot be loaded (" in about[0]
    refused = process(*asked, "--compute", "int8", cwd=tmp_path, text=TEXT, packages=package.parent)
    assert refused.returncode == 2
    assert "cannot be loaded" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_language_model_is_computed_in_the_precision_that_it_was_exported_in_or_says_why_not(tmp_path):
    """The stand-in writes nothing."""
    run = finished_writer(tmp_path / "writer").path
    told = process("-m", "dragoman", "export", run, "--out", "model", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    asked = ["generate", "model", "--prompt", "two", "--tokens", 5, "--device", "cpu"]
    answer = process("-m", "dragoman", *asked, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "model is computed by PyTorch: models of kind causal are not for the compiled core" in answer.stderr
    refused = process("-m", "dragoman", *asked, "--compute", "int8", cwd=tmp_path)
    assert refused.returncode == 2
    assert "compute = int8: models of kind causal" in refused.stderr
