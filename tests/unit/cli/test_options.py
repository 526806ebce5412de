"""Options generated from configuration models, and options without effect."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dragoman.cli.options import config_options, refuse, shared_options
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.errors import ConfigError

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
    assert "(the run's)" in output
    assert "(1.0)" in output


def test_refuse_names_the_option():
    refuse({"seed": None, "echo": False, "stop": []}, "here")
    with pytest.raises(ConfigError, match="--no-repeat-ngram has no effect here"):
        refuse({"seed": None, "no_repeat_ngram_size": 3}, "here")
