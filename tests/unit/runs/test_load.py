"""Loading a run as a class: refused before anything is read but the configuration."""

from pathlib import Path

import pytest

import dragoman
from dragoman.cli import main
from dragoman.errors import ConfigError, RunError
from dragoman.runs.load import LOADED_AS, load_torch_model


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Folder with no more than the task of its run."""
    (tmp_path / "config.yaml").write_text(f"task: {request.param}\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("run", LOADED_AS, indirect=True)
@pytest.mark.parametrize("load", [dragoman.load, load_torch_model])
def test_run_of_another_class_is_refused(run, load):
    other = dragoman.Generator if "translation" in (run / "config.yaml").read_text() else dragoman.Translator
    with pytest.raises(RunError, match=r"is an? [\w ]+, not a \w+\. Use it with: dragoman \w+ "):
        load(run, other)


@pytest.mark.parametrize("run", ["question_answering"], indirect=True)
def test_message_names_the_classes_and_the_verb(run):
    with pytest.raises(RunError) as error:
        dragoman.load(run, (dragoman.Classifier, dragoman.Tagger))
    remedy = f"Use it with: dragoman answer {run} (in Python: dragoman.QuestionAnswerer)"
    assert str(error.value) == f"{run}: is a question answerer, not a classifier or a tagger. {remedy}"


@pytest.mark.parametrize("run", ["language_modeling"], indirect=True)
def test_verb_for_another_task_is_refused(run, capsys):
    for verb in ("translate", "classify"):
        assert main.run([verb, str(run)], debug=False) == 2
    lines = capsys.readouterr().err.splitlines()
    remedy = f"Use it with: dragoman generate {run} (in Python: dragoman.Generator)"
    for line, names in zip(lines, ("translator", "classifier or a tagger"), strict=True):
        assert line == f"dragoman: {run}: is a generator, not a {names}. {remedy}"


@pytest.mark.parametrize("run", ["translation"], indirect=True)
@pytest.mark.parametrize("kind", ["translation", int, dragoman.DecodingConfig, (dragoman.Tagger, "Generator")])
def test_kind_that_no_run_has_is_refused(run, kind):
    with pytest.raises(TypeError, match=r"is not a class that runs are loaded as. Give one of Translator, "):
        dragoman.load(run, kind)


@pytest.mark.parametrize("run", ["translation"], indirect=True)
@pytest.mark.parametrize("batch_tokens", [0, -3])
def test_token_budget_is_checked_first(run, batch_tokens):
    for load in (dragoman.load, load_torch_model):
        with pytest.raises(ConfigError, match=f"batch_tokens = {batch_tokens!r}: is not a whole number of at least 1"):
            load(run, batch_tokens=batch_tokens)
