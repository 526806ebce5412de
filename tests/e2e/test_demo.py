"""`dragoman demo` as a person types it: a process, from nothing to a table, and shown again the second time."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.browser import browser, chromium

FEW = ("--set", "training.max_epochs=12", "--set", "training.validate_every_epochs=12")


def demo(folder, *options):
    environment = {**os.environ, "DRAGOMAN_CACHE": str(folder / "cache"), "COLUMNS": "120"}
    command = [sys.executable, "-m", "dragoman", "demo", "--out", "run", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


def without_minutes(text):
    """What a demo prints, apart from the time that it took."""
    return re.sub(r"after [\d.]+ minutes", "after some minutes", text)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, demo(folder, "--to", "de", *FEW)


def test_a_demo_trains_translates_and_says_how_to_go_on(first):
    folder, ending = first
    assert ending.returncode == 0, ending.stderr
    assert "1,000 held-out phrases exactly right" in ending.stdout
    assert "dragoman translate run" in ending.stdout
    assert (folder / "run" / "model.safetensors").exists()
    assert "step 12" in ending.stderr


def test_its_held_out_sources_never_occur_in_training(first):
    corpus = first[0] / "run" / "corpus"
    train = set((corpus / "train.en").read_text().splitlines())
    test = (corpus / "test.en").read_text().splitlines()
    assert len(test) == 1000
    assert not train & set(test)


def test_it_is_looked_into_on_one_page(first, tmp_path):
    folder, _ = first
    texts = (folder / "run" / "corpus" / "test.en").read_text(encoding="utf-8").splitlines()[:5]
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "dragoman", "inspect", "run", "--out", str(page), "--device", "cpu"]
    command += [part for text in texts for part in ("--text", text)]
    ending = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert ending.returncode == 0, ending.stderr
    if (program := chromium()) is None:
        pytest.skip("no Chromium here; install Debian's package chromium to look at the page")
    with browser(program, tmp_path / "profile") as shown:
        shown.open(page, dark=True)
        for number, text in enumerate(texts):
            shown.point_at(f"document.querySelector('#sentences').children[{number}]", press=True)
            assert shown.value("dragoman.sentence().source_text") == text
            shown.point_at("document.querySelector('#target').children[0]")
            assert "with probability" in shown.text("#step-readout")
        assert shown.errors == []


def test_the_second_time_it_is_shown_without_training(first):
    folder, ending = first
    again = demo(folder, "--to", "DE")
    assert again.returncode == 0, again.stderr
    assert again.stdout == ending.stdout
    assert "update" not in again.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--to", "de", *FEW), "--set has no effect on run, which is there already"), ((), "--to fr: run is a demo of")],
)
def test_what_it_is_not_is_not_shown_for_it(first, options, message):
    again = demo(first[0], *options)
    assert again.returncode == 2
    assert message in " ".join(again.stderr.split())


def test_the_numbers_it_prints_are_those_of_the_run(first):
    folder, ending = first
    scores = json.loads((folder / "run" / "scores.json").read_text())["scores"]["test"]
    exact = next(score["value"] for score in scores if score["metric"] == "exact match" or "xact" in score["metric"])
    assert f"{exact:.1f} % of 1,000" in ending.stdout


def test_an_unknown_locale_is_named_with_the_nearest(tmp_path):
    ending = demo(tmp_path, "--to", "frr_XX")
    assert ending.returncode == 2
    assert "frr_XX" in ending.stderr
    assert "Traceback" not in ending.stderr


def test_a_folder_that_is_no_demo_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter.txt").write_text("dear all")
    ending = demo(tmp_path)
    assert ending.returncode == 2
    assert "run" in ending.stderr
    assert (tmp_path / "run" / "letter.txt").read_text() == "dear all"


def test_a_demo_that_was_killed_while_it_wrote_its_corpus_goes_on(first, tmp_path):
    corpus = tmp_path / "run" / "corpus"
    corpus.mkdir(parents=True)
    for name in ("train.en", "train.de"):
        (corpus / name).write_bytes((first[0] / "run" / "corpus" / name).read_bytes())
    ending = demo(tmp_path, "--to", "de", *FEW)
    assert ending.returncode == 0, ending.stderr
    assert without_minutes(ending.stdout) == without_minutes(first[1].stdout)
