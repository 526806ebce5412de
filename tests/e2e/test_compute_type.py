"""`dragoman translate` on a stub of the CPU library that copies its input, and `dragoman export`, as processes."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from dragoman import cpu_library
from tests.untrained_runs import finished_language_model, finished_run

pytestmark = pytest.mark.slow

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
from importlib.metadata import version
from dragoman.cli.main import run
status = run(sys.argv[1:], debug=True)
print("torch" in sys.modules, file=sys.stderr)
sys.exit(status)
"""


def test_cpu_backend_does_not_import_torch(run, tmp_path):
    answer = process("-c", PROGRAM, "translate", run, "--device", "cpu", cwd=tmp_path, text=TEXT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == TEXT
    assert answer.stderr == "False\n"


@pytest.mark.skipif(not cpu_library.is_installed(), reason="dragoman-cpu is not installed")
def test_generation_on_the_cpu_backend_does_not_import_torch(tmp_path):
    model = finished_language_model(tmp_path / "run").path
    answer = process("-c", PROGRAM, "generate", model, "--device", "cpu", cwd=tmp_path, text="a\n", packages=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.splitlines()[-1] == "False"


def test_exported_int8_model_is_described_and_translates(run, tmp_path):
    told = process("-m", "dragoman", "export", run, "--compute-type", "int8", "--out", "model", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("model: int8 weights, 0.0 MiB (")
    facts = process("-m", "dragoman", "info", "model", "--json", cwd=tmp_path)
    assert json.loads(facts.stdout)["compute_type"] == "int8"
    assert json.loads(facts.stdout)["bytes"]["weights"] == (tmp_path / "model" / "model.safetensors").stat().st_size
    answer = process("-c", PROGRAM, "translate", "model", "--device", "cpu", cwd=tmp_path, text=TEXT)
    assert (answer.stdout, answer.stderr) == (TEXT, "False\n")
    again = process("-m", "dragoman", "export", run, "--out", "model", cwd=tmp_path)
    assert again.returncode == 2
    assert "never overwritten" in again.stderr


@pytest.fixture
def broken(tmp_path):
    """Folder of packages with a CPU library that cannot be loaded."""
    package = tmp_path / "packages" / "dragoman_cpu"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import numpy\nfrom . import _core\n", encoding="utf-8")
    (package / "_core.so").write_bytes(b"not a library")
    return package.parent


def test_training_warns_once_of_a_broken_cpu_library(tmp_path, broken):
    for side in ("en", "de"):
        lines = (f"{side} {word} {number}\n" for word in ("dog", "cat", "sea") for number in range(20))
        (tmp_path / side).write_text("".join(lines), encoding="utf-8")
    short = ("--set", "training.max_steps=2", "--set", "data.valid_size=5")
    asked = ("train", "--source", "en", "--target", "de", "--device", "cpu", "--out", "run", *short)
    answer = process("-m", "dragoman", *asked, cwd=tmp_path, packages=broken)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.count("Training runs without the CPU library and is slower") == 1
    assert json.loads((tmp_path / "run" / "environment.json").read_text(encoding="utf-8"))["cpu_ops"] == "none"


def test_broken_cpu_library_gives_one_warning(run, tmp_path, broken):
    asked = ["-m", "dragoman", "translate", run, "--device", "cpu", "--max-length", 5, "--beam", 1]
    answer = process(*asked, cwd=tmp_path, text=TEXT, packages=broken)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("\n") == 3
    about = [line for line in answer.stderr.splitlines() if "length limit" not in line]
    assert len(about) == 1
    assert "cannot be loaded (" in about[0]
    refused = process(*asked, "--compute-type", "int8", cwd=tmp_path, text=TEXT, packages=broken)
    assert refused.returncode == 2
    assert "cannot be loaded" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_cpu_library_of_another_version_is_not_used(run, tmp_path):
    described = tmp_path / "packages" / "dragoman_cpu-0.0.1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: dragoman-cpu\nVersion: 0.0.1\n", encoding="utf-8")
    (tmp_path / "packages" / "dragoman_cpu.py").write_text("", encoding="utf-8")
    asked = ["-m", "dragoman", "translate", run, "--device", "cpu", "--max-length", 5, "--compute-type", "int8"]
    refused = process(*asked, cwd=tmp_path, text=TEXT, packages=tmp_path / "packages")
    assert refused.returncode == 2
    words = " ".join(refused.stderr.split())
    assert f"the CPU library has version 0.0.1, but dragoman has version {version('dragoman')}" in words


def test_unsupported_language_model_runs_in_float32_only(tmp_path):
    run = finished_language_model(tmp_path / "writer").path
    told = process("-m", "dragoman", "export", run, "--out", "model", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    asked = ["generate", "model", "--prompt", "two", "--max-new-tokens", 5, "--device", "cpu"]
    answer = process("-m", "dragoman", *asked, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "PyTorch runs model: the CPU library does not" in answer.stderr
    refused = process("-m", "dragoman", *asked, "--compute-type", "int8", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--compute-type int8: the CPU library does not" in refused.stderr
    (tmp_path / "text").write_text("two\n", encoding="utf-8")
    measured = ("score", "model", "--target", "text", "--perplexity", "--device", "cpu")
    for precision, code in (("float32", 0), ("int8", 2)):
        answer = process("-m", "dragoman", *measured, "--compute-type", precision, cwd=tmp_path)
        assert answer.returncode == code, answer.stderr


DOCUMENT = "  two dogs play . a cat sits by the sea .\n\n\ta cat sits .   two dogs .\n"


def test_split_keeps_white_space_between_sentences(run, tmp_path):
    """Each sentence is cut off at its own limit, so that the output shows where sentences begin."""
    options = ["--device", "cpu", "--split", "sentences", "--max-length", 3, "--format", "text"]
    answer = process("-W", "ignore", "-m", "dragoman", "translate", run, *options, cwd=tmp_path, text=DOCUMENT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "  two dogs play a cat sits\n\n\ta cat sits   two dogs .\n"
    german = process("-m", "dragoman", "translate", run, "--language", "de", cwd=tmp_path, text=DOCUMENT)
    assert german.returncode == 2
    assert "--language has no effect without --split. Leave it out." in german.stderr


def test_shortlist_is_learned_at_export_and_used_on_demand(run, tmp_path):
    (tmp_path / "train.en").write_text("two dogs play .\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("zwei Hunde spielen .\n", encoding="utf-8")
    corpus = ["--source", "train.en", "--target", "train.de"]
    sizes = ["--frequent", 1, "--per-token", 1]
    told = process("-m", "dragoman", "export", run, "--out", "model", "--shortlist", *corpus, *sizes, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[1].startswith("model: shortlist learned from 1 pair.")
    translate = ["-c", PROGRAM, "translate", "model", "--device", "cpu"]
    assert process(*translate, cwd=tmp_path, text=TEXT).stdout == TEXT
    answer = process(*translate, "--shortlist", cwd=tmp_path, text="two dogs play .\n")
    assert (answer.stdout, answer.stderr) == ("two dogs play .\n", "False\n")
    for arguments, message in (
        (["export", run, "--out", "other", "--frequent", 3], "--frequent has no effect without --shortlist"),
        (["export", run, "--out", "other", "--shortlist", *corpus[:2]], "two sides of one corpus"),
        (["export", run, "--out", "other", "--shortlist"], "/home/somebody/train.en: cannot be read"),
        (["translate", run, "--shortlist"], "has no shortlist. Create a model with one: dragoman export "),
    ):
        refused = process("-m", "dragoman", *arguments, cwd=tmp_path, text=TEXT)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert message in refused.stderr
