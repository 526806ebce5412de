"""`dragoman translate` through the core and `dragoman export`, as processes; the core is a stand-in that copies."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.untrained_runs import finished_language_model, finished_run

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


def test_translating_through_the_core_leaves_torch_alone(run, tmp_path):
    answer = process("-c", PROGRAM, "translate", run, "--device", "cpu", cwd=tmp_path, text=TEXT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == TEXT
    assert answer.stderr == "False\n"


def test_a_run_is_exported_described_and_translated_with(run, tmp_path):
    told = process("-m", "dragoman", "export", run, "--compute-type", "int8", "--out", "model", cwd=tmp_path)
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


@pytest.fixture
def broken(tmp_path):
    """A folder of packages, with a core that cannot be loaded."""
    package = tmp_path / "packages" / "dragoman_cpu"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import numpy\nfrom . import _core\n", encoding="utf-8")
    (package / "_core.so").write_bytes(b"this is no program")
    return package.parent


def test_a_training_says_once_that_its_core_cannot_be_loaded(tmp_path, broken):
    for side in ("en", "de"):
        lines = (f"{side} {word} {number}\n" for word in ("dog", "cat", "sea") for number in range(20))
        (tmp_path / side).write_text("".join(lines), encoding="utf-8")
    short = ("--set", "training.max_steps=2", "--set", "data.valid_size=5")
    asked = ("train", "--source", "en", "--target", "de", "--device", "cpu", "--out", "run", *short)
    answer = process("-m", "dragoman", *asked, cwd=tmp_path, packages=broken)
    assert answer.returncode == 0, answer.stderr
    assert (
        answer.stderr.count("PyTorch trains alone, and slower: the compiled core is there and cannot be loaded (") == 1
    )
    assert json.loads((tmp_path / "run" / "environment.json").read_text(encoding="utf-8"))["core"] == "none"


def test_a_core_that_cannot_be_loaded_costs_one_line_and_no_more(run, tmp_path, broken):
    asked = ["-m", "dragoman", "translate", run, "--device", "cpu", "--max-length", 5, "--beam", 1]
    answer = process(*asked, cwd=tmp_path, text=TEXT, packages=broken)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("\n") == 3
    about = [line for line in answer.stderr.splitlines() if "reached its longest" not in line]
    assert len(about) == 1
    assert "is computed by PyTorch: the compiled core is there and cannot be loaded (" in about[0]
    refused = process(*asked, "--compute-type", "int8", cwd=tmp_path, text=TEXT, packages=broken)
    assert refused.returncode == 2
    assert "cannot be loaded" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_core_of_another_version_is_not_asked(run, tmp_path):
    """What it is asked is between it and this package alone, and changes from version to version."""
    described = tmp_path / "packages" / "dragoman_cpu-0.0.1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: dragoman-cpu\nVersion: 0.0.1\n", encoding="utf-8")
    (tmp_path / "packages" / "dragoman_cpu.py").write_text("", encoding="utf-8")
    asked = ["-m", "dragoman", "translate", run, "--device", "cpu", "--max-length", 5, "--compute-type", "int8"]
    refused = process(*asked, cwd=tmp_path, text=TEXT, packages=tmp_path / "packages")
    assert refused.returncode == 2
    words = " ".join(refused.stderr.split())
    assert f"the compiled core is of version 0.0.1, and dragoman of {version('dragoman')}; install the one" in words


def test_a_language_model_is_computed_in_the_precision_that_it_was_exported_in_or_says_why_not(tmp_path):
    """The stand-in writes nothing."""
    run = finished_language_model(tmp_path / "writer").path
    told = process("-m", "dragoman", "export", run, "--out", "model", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    asked = ["generate", "model", "--prompt", "two", "--max-new-tokens", 5, "--device", "cpu"]
    answer = process("-m", "dragoman", *asked, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "model is computed by PyTorch: the CPU library does not run models of kind decoder_only" in answer.stderr
    refused = process("-m", "dragoman", *asked, "--compute-type", "int8", cwd=tmp_path)
    assert refused.returncode == 2
    assert "compute = int8: the CPU library does not run" in refused.stderr
    (tmp_path / "text").write_text("two\n", encoding="utf-8")
    measured = ("score", "model", "--target", "text", "--perplexity", "--device", "cpu")
    for precision, code in (("float32", 0), ("int8", 2)):
        answer = process("-m", "dragoman", *measured, "--compute-type", precision, cwd=tmp_path)
        assert answer.returncode == code, answer.stderr


DOCUMENT = "  two dogs play . a cat sits by the sea .\n\n\ta cat sits .   two dogs .\n"


def test_a_document_keeps_its_layout_and_is_cut_into_sentences(run, tmp_path):
    """Each sentence is cut off at a limit of its own, so that the output tells where one began."""
    options = ["--device", "cpu", "--split", "sentences", "--max-length", 3, "--format", "text"]
    answer = process("-W", "ignore", "-m", "dragoman", "translate", run, *options, cwd=tmp_path, text=DOCUMENT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "  two dogs play a cat sits\n\n\ta cat sits   two dogs .\n"
    german = process("-m", "dragoman", "translate", run, "--language", "de", cwd=tmp_path, text=DOCUMENT)
    assert german.returncode == 2
    assert german.stderr == "dragoman: language = de has no effect on texts that are not split; say split = sentences\n"


def test_without_the_splitter_its_extra_is_named(run, tmp_path):
    program = "import sys; sys.modules['sentencex'] = None\n" + PROGRAM
    answer = process("-c", program, "translate", run, "--split", "sentences", cwd=tmp_path, text=DOCUMENT)
    assert answer.returncode == 2
    assert "install it with: pip install 'dragoman[sentences]'" in answer.stderr


def test_a_shortlist_is_learnt_at_export_and_used_where_it_is_wanted(run, tmp_path):
    (tmp_path / "train.en").write_text("two dogs play .\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("zwei Hunde spielen .\n", encoding="utf-8")
    corpus = ["--source", "train.en", "--target", "train.de"]
    sizes = ["--frequent", 1, "--each", 1]
    told = process("-m", "dragoman", "export", run, "--out", "model", "--shortlist", *corpus, *sizes, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[1] == (
        "model: a shortlist learnt from 1 pairs; use it by: dragoman translate model --shortlist"
    )
    translate = ["-c", PROGRAM, "translate", "model", "--device", "cpu"]
    assert process(*translate, cwd=tmp_path, text=TEXT).stdout == TEXT
    answer = process(*translate, "--shortlist", cwd=tmp_path, text="two dogs play .\n")
    assert (answer.stdout, answer.stderr) == ("two dogs play .\n", "False\n")
    for arguments, message in (
        (["export", run, "--out", "other", "--frequent", 3], "--frequent has no effect without --shortlist"),
        (["export", run, "--out", "other", "--shortlist", *corpus[:2]], "two sides of one corpus; give both"),
        (["export", run, "--out", "other", "--shortlist"], "/home/somebody/train.en: cannot be read"),
        (["translate", run, "--shortlist"], "holds no shortlist; make one by: dragoman export RUN --shortlist"),
    ):
        refused = process("-m", "dragoman", *arguments, cwd=tmp_path, text=TEXT)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert message in refused.stderr
