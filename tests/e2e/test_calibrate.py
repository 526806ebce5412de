"""`dragoman calibrate` as a process: a report, a file in the run, and what `dragoman translate` then says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.untrained_runs import PAIRS

GOLDEN = Path(__file__).parents[1] / "golden" / "run-1"


def dragoman(*arguments: str | Path, standard_input: str = "") -> str:
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_translations_of_a_calibrated_run_expect_a_score(tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(GOLDEN, run)
    texts = [f"the {word} {animal} sleeps" for word in ("small", "big", "old") for animal in ("cat", "dog", "man")] * 13
    (tmp_path / "valid.en").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    translations = dragoman("translate", run, "--input", tmp_path / "valid.en").splitlines()
    references = [text if number % 3 else PAIRS[0][1] for number, text in enumerate(translations)]
    (tmp_path / "valid.de").write_text("".join(f"{text}\n" for text in references), encoding="utf-8")
    files = ("--source", tmp_path / "valid.en", "--reference", tmp_path / "valid.de")
    report = json.loads(dragoman("calibrate", run, *files, "--json"))
    assert report["pairs"] == len(texts)
    assert Path(report["path"]) == run / "quality.json"
    assert str(run / "quality.json") in dragoman("calibrate", run, *files)
    scores = json.loads((run / "quality.json").read_text())["curve"]["scores"]
    record = json.loads(dragoman("translate", run, "--format", "jsonl", standard_input="the small cat sleeps\n"))
    [translation] = record["translations"]
    assert min(scores) <= translation["quality"]["expected_chrf"] <= max(scores)
    assert 0 < translation["quality"]["confidence"] <= 1
