"""A corpus in one file, whose format is recognized, as a process and in Python."""

import json
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.runs.config import corpus_settings, split_corpus
from tests.small_runs import dragoman, small_options, write_corpus


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
