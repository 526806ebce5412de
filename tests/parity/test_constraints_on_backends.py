"""Constraints on words with backends other than those of training and of the CPU library's usual compute types."""

import re
from pathlib import Path

import pytest

import dragoman
from dragoman.interop.marian.write_model import write
from tests.marian_students import student
from tests.small_runs import dragoman as command
from tests.untrained_runs import finished_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*cut off at (its|their) length limit"),  # random models write up to it
]
TEXTS = ["two dogs play .", "a cat sits by the sea", "a cat play"]
CONSTRAINTS = [
    [dragoman.Constraint("Meer"), dragoman.Constraint("Hunde", "once")],
    [],
    [dragoman.Constraint("spielen"), dragoman.Constraint("Katze", "forbidden")],
]


def assert_met(translator: dragoman.Translator) -> list[str]:
    """Translate with the constraints, check that they are met and change no other text, and return the translations."""
    found = [best for best, *_ in translator.translate(TEXTS, constraints=CONSTRAINTS, beam_size=4)]
    assert not any(one.unmet for one in found)
    words = [re.findall(r"\w+", one.text) for one in found]
    assert "Meer" in words[0]
    assert words[0].count("Hunde") == 1
    assert "spielen" in words[2]
    assert "Katze" not in words[2]
    assert found[1] == translator.translate([TEXTS[1]], beam_size=4)[0][0]
    return [one.text for one in found]


def test_int8_shift_meets_constraints(tmp_path: Path) -> None:
    (tmp_path / "student").mkdir()
    write(student({"d_model": 64, "d_ff": 96, "num_heads": 4}, compute_type="int8"), tmp_path / "student")
    dragoman.import_model(tmp_path / "student", tmp_path / "run")
    assert_met(dragoman.load(tmp_path / "run", compute_type="int8_shift"))


def test_graphs_of_onnx_meet_constraints_as_the_run_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the extra onnx writes graphs of ONNX")
    pytest.importorskip("onnxruntime", reason="the extra onnx runs graphs of ONNX")
    finished_run(tmp_path / "run")
    exported = command("export", "run", "--format", "onnx", "--output-dir", "graphs", cwd=tmp_path, timeout=600)
    assert exported.returncode == 0, exported.stderr
    graphs, run = (dragoman.load(tmp_path / name, dragoman.Translator, device="cpu") for name in ("graphs", "run"))
    assert assert_met(graphs) == assert_met(run)
