"""Runs of every released format still load, and give what they gave; README.md says how they were made."""

import json
import shutil
from pathlib import Path

import pytest

from dragoman.decoding import DecodingConfig
from dragoman.runs.load import load

HERE = Path(__file__).parent
RUNS = sorted(path.name.removeprefix("run-") for path in HERE.glob("run-*"))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in lines(path)]


def test_a_stored_run_exists():
    assert "1" in RUNS


@pytest.mark.parametrize("number", RUNS)
def test_translations_equal_the_stored_ones(number):
    expected = HERE / f"expected-{number}"
    translator = load(HERE / f"run-{number}", device="cpu")
    # The search of the release that stored them.
    found = translator.translate(
        lines(expected / "source.txt"), DecodingConfig(n_best=2, early_stopping=True, keep_greedy=False)
    )
    for translations, row in zip(found, rows(expected / "translations.jsonl"), strict=True):
        for one, other in zip(translations, row["translations"], strict=True):
            assert one.text == other["text"]
            assert list(one.tokens) == other["tokens"]
            assert one.hypothesis.log_prob == pytest.approx(other["log_prob"], rel=1e-5, abs=1e-4)
            assert one.hypothesis.score == pytest.approx(other["score"], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("number", RUNS)
def test_scores_equal_the_stored_ones(number):
    expected = HERE / f"expected-{number}"
    translator = load(HERE / f"run-{number}", device="cpu")
    found = translator.score(lines(expected / "source.txt"), lines(expected / "target.txt"))
    for one, row in zip(found, rows(expected / "scores.jsonl"), strict=True):
        assert one.log_prob == pytest.approx(row["log_prob"], rel=1e-5, abs=1e-4)
        assert list(one.token_log_probs) == pytest.approx(row["token_log_probs"], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("number", RUNS)
def test_loading_a_run_leaves_it_unchanged(number, tmp_path):
    copy = Path(shutil.copytree(HERE / f"run-{number}", tmp_path / "run"))
    before = {path.name: path.stat().st_mtime_ns for path in copy.iterdir()}
    load(copy, device="cpu").translate(["two dogs"])
    assert {path.name: path.stat().st_mtime_ns for path in copy.iterdir()} == before
