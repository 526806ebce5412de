"""Options generated from configuration models, and options without effect."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dragoman.cli.options import (
    PRESET_HELP,
    config_options,
    merge_assignments,
    refuse,
    shared_options,
    training_options,
)
from dragoman.config_trees import merge, nest
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.errors import ConfigError
from dragoman.runs.config import parse_experiment
from dragoman.runs.presets import PRESETS

FIELDS = ("beam_size", "method", "max_length_ratio", "allow_unk")


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run a verb with generated options; return its exit code, the values that it received, and its output."""
    received: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @shared_options(("device", "ensemble"), into="loading")
    @config_options(SamplingConfig, ("temperature",), into="sampling", default=None)
    @config_options(DecodingConfig, FIELDS, into="decoding")
    def verb(*, decoding: dict[str, Any], sampling: dict[str, Any], loading: dict[str, Any]) -> None:
        received.update(decoding=decoding, sampling=sampling, loading=loading)

    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, received, result.output


def test_options_that_are_not_given_are_missing():
    assert run() == (0, {"decoding": {}, "sampling": {}, "loading": {}}, "")


def test_values_have_the_types_of_the_fields():
    arguments = (
        "--beam",
        "3",
        "--decoding",
        "mbr",
        "--max-length-ratio",
        "1.5",
        "--no-allow-unk",
        "--temperature",
        "0",
    )
    code, received, _ = run(*arguments, "--ensemble", "a", "--ensemble", "b")
    assert code == 0
    decoding = {"beam_size": 3, "method": "mbr", "max_length_ratio": 1.5, "allow_unk": False}
    assert received["decoding"] == decoding
    assert received["sampling"] == {"temperature": 0.0}
    assert [str(path) for path in received["loading"]["ensemble"]] == ["a", "b"]


@pytest.mark.parametrize("arguments", [("--beam-size", "0"), ("--decoding", "best"), ("--temperature", "-1")])
def test_values_outside_the_bounds_are_refused(arguments):
    code, received, output = run(*arguments)
    assert (code, received) == (2, {})
    assert arguments[0] in output


def test_help_shows_description_and_default():
    _, _, output = run("--help")
    assert "Hypotheses per sentence" in output
    assert "by default as in the run" in output
    assert "(1.0)" in output


def test_refuse_names_the_option():
    refuse({"seed": None, "echo": False, "stop": []}, "here")
    with pytest.raises(ConfigError, match="--no-repeat-ngram has no effect here"):
        refuse({"seed": None, "no_repeat_ngram_size": 3}, "here")


def run_training(*arguments: object) -> dict[str, Any]:
    received: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @training_options
    def verb(*, training: dict[str, Any]) -> None:
        received.update(training)

    assert CliRunner().invoke(app, list(map(str, arguments))).exit_code == 0
    return received


def test_options_of_a_training_are_keys_of_its_settings():
    arguments = ["--preset", "nano", "--seed", 3, "--epochs", 5, "--max-steps", 7, "--batch-tokens", 331]
    given = run_training(*arguments, "--learning-rate", 0.003)
    tree: dict[str, Any] = {"data": {"train": {"kind": "tsv", "path": "pairs.tsv"}}}
    for key, value in given.items():
        tree = merge(tree, nest(key, value))
    training = parse_experiment(tree).training
    assert (training.seed, training.max_epochs, training.max_steps, training.batch_tokens) == (3, 5, 7, 331)
    assert training.optimizer.learning_rate == 0.003
    assert run_training() == {}


def test_a_large_beam_is_warned_about_before_the_work(capsys):
    run("--beam", "200")
    assert capsys.readouterr().err == ""
    code, received, output = run("--beam", "1000")
    assert (code, received["decoding"]) == (0, {"beam_size": 1000})
    assert "searches 1,000 hypotheses per sentence, which takes long" in output


@pytest.mark.parametrize("assignment", ["training.seed=8", "training={seed: 8}"])
def test_option_and_assignment_of_other_values_are_refused(assignment):
    with pytest.raises(ConfigError, match=r"--seed 7 and --set training\.seed=8 differ"):
        merge_assignments({"training.seed": 7}, [assignment])
    assert merge_assignments({"training.seed": 8}, [assignment])["training"] == {"seed": 8}
    assert merge_assignments({"training.seed": 7}, ["training.max_steps=9"])["training.seed"] == 7


def test_help_lists_all_presets_by_task():
    by_tasks: dict[str, list[str]] = {}
    for name, preset in PRESETS.items():
        by_tasks.setdefault(", ".join(preset.tasks), []).append(name)
    listed = "; ".join(f"{', '.join(names)} ({tasks})" for tasks, names in by_tasks.items())
    assert f"Model size, by task: {listed}." == PRESET_HELP
