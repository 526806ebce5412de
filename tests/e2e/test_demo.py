"""`dragoman demo` as a process: training, the printed table, and the second call."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.browser import browser, chromium

pytestmark = pytest.mark.slow

FEW = ("--set", "training.max_steps=12", "--set", "training.validate_every=12")


def demo(folder, *options):
    environment = {**os.environ, "DRAGOMAN_CACHE": str(folder / "cache"), "COLUMNS": "120"}
    command = [sys.executable, "-m", "dragoman", "demo", "--out", "run", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


def without_minutes(text):
    return re.sub(r"after [\d.]+ minutes", "after some minutes", text)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, demo(folder, "--to", "de", *FEW)


def test_demo_trains_translates_and_prints_next_commands(first):
    folder, ending = first
    assert ending.returncode == 0, ending.stderr
    assert "1,000 held-out phrases exactly right" in ending.stdout
    assert "dragoman translate run" in ending.stdout
    assert "note: The scores are not good enough for useful translations. BLEU is " in ending.stdout
    assert "Train longer: dragoman train --resume run --max-steps 24\n" in ending.stdout
    assert (folder / "run" / "model.safetensors").exists()
    assert "step 12" in ending.stderr


def test_held_out_sources_are_not_in_the_training_data(first):
    corpus = first[0] / "run" / "corpus"
    train = set((corpus / "train.en").read_text().splitlines())
    test = (corpus / "test.en").read_text().splitlines()
    assert len(test) == 1000
    assert not train & set(test)


def test_texts_unlike_the_corpus_are_marked(first, tmp_path):
    """Whatever the model has learned: the statistics of its sources decide."""
    folder, _ = first
    test = (folder / "run" / "corpus" / "test.en").read_text(encoding="utf-8")
    (tmp_path / "texts").write_text(f"{test}Two dogs play.\nThe meeting is on Monday.\n", encoding="utf-8")
    command = [sys.executable, "-m", "dragoman", "translate", "run", "--input", tmp_path / "texts", "--format", "jsonl"]
    ending = subprocess.run([*command, "--beam", "1"], cwd=folder, capture_output=True, text=True, timeout=280)
    assert ending.returncode == 0, ending.stderr
    records = [json.loads(line) for line in ending.stdout.splitlines()]
    kinds = [{warning["kind"] for warning in record["translations"][0]["quality"]["warnings"]} for record in records]
    marked = ["unfamiliar" in found for found in kinds]
    assert marked[-2:] == [True, True]
    assert sum(marked[:1000]) <= 20
    assert "unlike those that the model was trained on" in ending.stderr


def test_demo_run_can_be_inspected(first, tmp_path):
    folder, _ = first
    texts = (folder / "run" / "corpus" / "test.en").read_text(encoding="utf-8").splitlines()[:5]
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "dragoman", "inspect", "run", "--out", str(page), "--device", "cpu"]
    command += [part for text in texts for part in ("--text", text)]
    ending = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert ending.returncode == 0, ending.stderr
    if (program := chromium()) is None:
        pytest.skip("no Chromium here; install Debian's package chromium to look at the page")
    with browser(program) as shown:
        shown.open(page, dark=True)
        for number, text in enumerate(texts):
            shown.point_at(f"document.querySelector('#sentences').children[{number}]", press=True)
            assert shown.value("dragoman.sentence().source_text") == text
            shown.point_at("document.querySelector('#target').children[0]")
            assert "has probability" in shown.text("#prediction-readout")
        assert shown.errors == []


def test_second_call_prints_without_training(first):
    folder, ending = first
    again = demo(folder, "--to", "DE")
    assert again.returncode == 0, again.stderr
    assert again.stdout == ending.stdout
    assert "step" not in again.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--to", "de", *FEW), "--set has no effect on run, which exists"), ((), "--to fr: run is a demo of")],
)
def test_other_options_for_a_finished_demo_are_refused(first, options, message):
    again = demo(first[0], *options)
    assert again.returncode == 2
    assert message in " ".join(again.stderr.split())


def test_printed_scores_are_those_of_the_run(first):
    folder, ending = first
    scores = json.loads((folder / "run" / "scores.json").read_text())["scores"]["test"]
    exact = next(score["value"] for score in scores if score["metric"] == "exact match" or "xact" in score["metric"])
    assert f"{exact:.1f} % of 1,000" in ending.stdout


def test_unknown_locale_is_refused(tmp_path):
    ending = demo(tmp_path, "--to", "frr_XX")
    assert ending.returncode == 2
    assert "frr_XX" in ending.stderr
    assert "Traceback" not in ending.stderr


def test_folder_without_demo_is_unchanged(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter.txt").write_text("dear all")
    ending = demo(tmp_path)
    assert ending.returncode == 2
    assert "run" in ending.stderr
    assert (tmp_path / "run" / "letter.txt").read_text() == "dear all"


def test_demo_killed_while_writing_its_corpus_continues(first, tmp_path):
    corpus = tmp_path / "run" / "corpus"
    corpus.mkdir(parents=True)
    for name in ("train.en", "train.de"):
        (corpus / name).write_bytes((first[0] / "run" / "corpus" / name).read_bytes())
    ending = demo(tmp_path, "--to", "de", *FEW)
    assert ending.returncode == 0, ending.stderr
    assert without_minutes(ending.stdout) == without_minutes(first[1].stdout)
