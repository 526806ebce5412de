"""The source of an invalid setting in its error message."""

import pytest

from dragoman.config_errors import MAX_LINES, name_origins
from dragoman.errors import ConfigError, Problem
from dragoman.runs.config import merge_settings, parse_experiment

DATA = {"data": {"train": {"kind": "files", "source": "a.en", "target": "a.de"}}}


def blame(file: dict, over: dict) -> list[str]:
    """Return the lines of the error of a file with other settings over it."""
    tree = DATA | file
    with pytest.raises(ConfigError) as caught, name_origins({"a.yaml: ": tree, "--set ": over}):
        parse_experiment(merge_settings(tree, over))
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("file", "over", "line"),
    [
        ({"training": {"lr": 1}}, {"training": {"seed": 2}}, "a.yaml: training.lr: no such key."),
        ({"training": {"seed": 2}}, {"training": {"lr": 1}}, "--set training.lr: no such key."),
        ({"training": {"seed": -1}}, {"training": {"seed": -2}}, "--set training.seed = -2: must be at least 0"),
        ({"model": {"num_heads": 3}}, {"model": {"d_ff": 64}}, "a.yaml: model.num_heads = 3 does not divide"),
        ({"model": {"num_heads": 8}}, {"model": {"d_model": 63}}, "--set model.num_heads = 8 does not divide"),
        ({"model": {"d_model": 63}}, {"model": {"num_heads": 8}}, "--set model.num_heads = 8 does not divide"),
        ({"decoding": {"n_best": 4}}, {"decoding": {"beam_size": 3}}, "--set decoding: n_best = 4 is more than"),
        ({"tokenizer": {"shared": False}}, {"training": {"seed": 2}}, "a.yaml: model.tie_embeddings = all needs"),
        ({"training": {"schedule": "cosine"}}, {"model": {"positions": "rope"}}, "--set model.positions.kind = 'rope'"),
        ({"training": {"schedule": "cosin"}}, {"model": {"positions": "rotary"}}, "a.yaml: training.schedule.kind ="),
        ({"preset": "tinny"}, {"training": {"seed": 2}}, "a.yaml: preset: 'tinny' does not exist."),
        ({}, {"preset": "tinny"}, "--set preset: 'tinny' does not exist."),
        ({"preset": "lstm"}, {"model": "encoder_decoder"}, "--set preset: lstm is a model of kind recurrent"),
        ({}, {"task": "translating"}, "--set task = 'translating' does not exist."),
        ({"metrics": ["blue"]}, {"training": {"seed": 2}}, "a.yaml: metrics.0.kind = 'blue'"),
        ({"data": {}}, {"training": {"seed": 2}}, "a.yaml: data.train: is required and not given"),
        (
            {"model": {"dropout": {"residual": 0.1}}},
            {"model": {"dropout": 0.3}},
            "--set model.dropout = 0.3: is",
        ),
    ],
)
def test_last_source_of_the_value_is_named(file, over, line):
    [found] = blame(file, over)
    assert found.startswith(line)


def test_line_breaks_in_keys_give_no_lines():
    with pytest.raises(ConfigError, match=r"training\.a\\nb: no such key") as refused:
        parse_experiment({"training": {"a\nb": 1}})
    assert len(str(refused.value).splitlines()) == 2, refused.value


def test_each_line_has_its_own_source():
    assert [line.partition(":")[0] for line in blame({"sed": 1}, {"training": {"lr": 1}})] == [
        "--set training.lr",
        "a.yaml",
    ]


def test_known_source_is_kept_and_no_source_adds_nothing():
    with pytest.raises(ConfigError, match=r"^b: x$"), name_origins({"a: ": {"k": 1}}):
        raise ConfigError(Problem("x", keys=("k",), origin="b: "))
    with pytest.raises(ConfigError, match=r"^x$"), name_origins({}):
        raise ConfigError(Problem("x", keys=("k",)))


def test_message_has_few_lines():
    assert len(blame({"a1": 1, "a2": 1, "a3": 1, "a4": 1}, {})) == MAX_LINES
