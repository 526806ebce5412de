"""The configuration of a run: how its parts are laid over each other, and what no room could refuse alone."""

from pathlib import Path

import pytest

from dragoman.config import to_yaml
from dragoman.errors import ConfigError
from dragoman.experiment.config import in_folder, read_experiment, read_tree, to_experiment, with_preset

DATA = {"train": {"kind": "files", "source": "a.en", "target": "a.de"}}


def test_assignments_lie_over_the_file_and_the_file_over_its_preset(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("preset: tiny\nmodel: {size: 64}\ntraining: {seed: 3}\n", encoding="utf-8")
    tree = with_preset(read_tree(file, ["training.seed=5"]))
    assert "preset" not in tree
    assert tree["model"]["size"] == 64
    assert tree["model"]["feed_forward"] == 256
    assert tree["training"]["seed"] == 5
    assert read_tree(None, ["preset=base"]) == {"preset": "base"}


def test_another_kind_replaces_what_the_preset_chose():
    tree = {"preset": "tiny", "data": DATA, "training": {"schedule": {"kind": "constant"}}}
    assert to_experiment(tree).training.schedule.warmup == 0


def test_relative_corpora_are_taken_from_a_folder():
    tree = {
        "data": {
            "train": {"kind": "files", "source": "a.en", "target": "/elsewhere/a.de"},
            "valid": {"kind": "tsv", "path": "v.tsv"},
            "held_out": None,
        },
        "model": {"size": 8},
    }
    placed = in_folder(tree, Path("/data"))
    assert placed["data"]["train"] == {"kind": "files", "source": "/data/a.en", "target": "/elsewhere/a.de"}
    assert placed["data"]["valid"]["path"] == "/data/v.tsv"
    assert placed["data"]["held_out"] is None
    assert placed["model"] == {"size": 8}
    assert in_folder({"data": 3}, Path("/data")) == {"data": 3}


def test_what_is_written_is_read_back(tmp_path):
    experiment = to_experiment({"preset": "nano", "data": DATA, "metrics": [{"kind": "ter"}]})
    (tmp_path / "config.yaml").write_text(to_yaml(experiment), encoding="utf-8")
    assert read_experiment(tmp_path / "config.yaml") == experiment


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "data: is required"),
        (
            {"data": DATA, "model": {"heads": 3}},
            "model.heads = 3 does not divide model.size = 512; choose one of [1, 2",
        ),
        ({"data": DATA, "tokenizer": {"shared": False}}, "model.tie = all needs one vocabulary for both sides"),
        (
            {"data": DATA, "model": {"positions": {"kind": "learned", "length": 200}}},
            "model.positions.length = 200 is shorter than the longest example of 257 tokens",
        ),
        ({"data": DATA, "decoding": {"best": 2}}, "decoding.best = 2 has no effect in training"),
        ({"data": DATA, "metrics": []}, "metrics"),
        ({"data": DATA, "modle": {}}, "modle: no such key. Did you mean model?"),
        ({"data": DATA | {"valid": DATA["train"], "held_out": 3}}, "held_out has no effect beside valid"),
    ],
)
def test_rooms_that_do_not_fit_each_other_are_refused_in_one_line(tree, message):
    with pytest.raises(ConfigError) as raised:
        to_experiment(tree, where="recipe.yaml")
    assert str(raised.value).startswith("recipe.yaml: ")
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_learned_positions_that_hold_the_longest_example_are_accepted():
    model = {"positions": {"kind": "learned", "length": 257}}
    assert to_experiment({"data": DATA, "model": model}).data.longest_source == 256
