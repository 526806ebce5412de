"""A corpus in one file, whose format is recognized, as a process and in Python."""

import json
import warnings
from pathlib import Path

import pytest

from dragoman.data.datasets.text import TextDataConfig, prepare_text
from dragoman.data.readers.recognize_format import recognize_text
from dragoman.errors import ConfigError
from dragoman.inference import TranslationWarning
from dragoman.runs.config import corpus_settings, split_corpus
from dragoman.runs.evaluate import evaluate
from tests.small_runs import dragoman, small_options, write_corpus
from tests.untrained_runs import PAIRS, finished_run


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    sides = [path.read_text(encoding="utf-8").splitlines() for path in write_corpus(tmp_path)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)), encoding="utf-8")
    return path


def test_train_reads_pairs_and_frequent_settings(pairs):
    options = small_options(training__max_steps=None)
    answer = dragoman(
        *("train", pairs.name, "--out", "run", *options, "--max-steps", 5, "--seed", 3, "--learning-rate", 0.002),
        *("--quiet", "--json"),
        cwd=pairs.parent,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    facts = json.loads(answer.stdout)
    assert (facts["path"], facts["steps"], list(facts["scores"])) == ("run", 5, ["valid"])
    config = (pairs.parent / "run" / "config.yaml").read_text(encoding="utf-8")
    for line in ("kind: tsv", "path: pairs.tsv", "seed: 3", "max_steps: 5", "kind: muon", "learning_rate: 0.002"):
        assert line in config


def test_a_corpus_in_the_place_of_the_configuration_is_the_training_corpus(pairs):
    config, files = split_corpus(pairs, {"valid_pairs": pairs})
    assert config is None
    expected = {"kind": "tsv", "path": str(pairs)}
    assert corpus_settings(files) == {"data": {"train": expected, "valid": expected}}


@pytest.mark.parametrize("other", ["source", "text", "pairs", "prepared"])
def test_one_training_corpus_only(other, pairs):
    with pytest.raises(ConfigError, match=f"is a corpus, and --{other} names another one"):
        split_corpus(pairs, {other: pairs})


def test_both_sides_in_one_file_exclude_a_side(pairs):
    with pytest.raises(ConfigError, match=r"--pairs contains both sides\. Leave --source and --target out"):
        corpus_settings({"pairs": pairs, "source": "train.en"})


@pytest.fixture(scope="module")
def reference_set(tmp_path_factory) -> Path:
    """Return a folder with an untrained run and a test set in two files and in one."""
    folder = tmp_path_factory.mktemp("test-set")
    finished_run(folder / "run")
    for name, side in zip(("test.en", "test.de"), zip(*PAIRS, strict=True), strict=True):
        (folder / name).write_text("".join(f"{text}\n" for text in side), encoding="utf-8")
    (folder / "test.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("verb", "two_files", "result"),
    [
        (("score", "run"), ("--source", "test.en", "--target", "test.de"), ()),
        (("analyse", "run"), ("--source", "test.en", "--reference", "test.de"), ("--json", "result.json")),
    ],
)
def test_one_file_gives_the_results_of_two(reference_set, verb, two_files, result):
    found = []
    for given in (two_files, ("--pairs", "test.tsv")):
        answer = dragoman(*verb, *given, *result, cwd=reference_set)
        assert answer.returncode == 0, answer.stderr
        text = (reference_set / "result.json").read_text(encoding="utf-8") if result else answer.stdout
        found.append(text.replace("test.tsv", "test.en"))
    assert found[0] == found[1] != ""
    answer = dragoman(*verb, *two_files, "--pairs", "test.tsv", *result, cwd=reference_set)
    assert answer.returncode == 2
    assert "--source has no effect with --pairs, which contains both sides. Leave it out." in answer.stderr


def test_evaluate_in_python_reads_one_file(reference_set):
    run, tsv, sides = reference_set / "run", reference_set / "test.tsv", [[*side] for side in zip(*PAIRS, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        found = evaluate(run, pairs=tsv, device="cpu", max_length=5)
        assert found == evaluate(run, source=sides[0], reference=sides[1], device="cpu", max_length=5)
    with pytest.raises(ConfigError, match=r"pairs contains sources and references\. Leave source and reference out"):
        evaluate(run, pairs=tsv, source=sides[0])
    with pytest.raises(ConfigError, match=r"The test set is missing\. Give source and reference, or pairs"):
        evaluate(run, source=sides[0])


def test_columns_in_a_text_are_noted(reference_set):
    note = "test.tsv: 2 of the first 2 lines contain a tab, and are read as one text; a file with both sides goes to"
    prepared = prepare_text(TextDataConfig(train=recognize_text(reference_set / "test.tsv"), valid_size=0.5))
    assert any(note in one for one in prepared.notes)
    answer = dragoman("score", "run", "--source", "test.en", "--target", "test.tsv", cwd=reference_set)
    assert f"dragoman: note: {note} --pairs" in answer.stderr
