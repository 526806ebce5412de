"""Explanation of the continuations of a language model."""

from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.inference import InputWarning
from dragoman.runs.inspect import InspectionRequest, inspect_run
from tests.untrained_runs import finished_language_model

CONTEXT = 23


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return finished_language_model(tmp_path_factory.mktemp("runs") / "writer").path


def test_long_prompt_is_explained_whole(run):
    [explanation] = inspect_run(run, InspectionRequest(["two dogs play and a"])).explanations
    assert "".join(explanation.source) == "<bos>two▁dogs▁play▁and▁a"
    assert len(explanation.source) + len(explanation.target) <= CONTEXT + 1
    assert explanation.target


def test_prompt_beyond_the_context_is_refused_with_the_run(run):
    text = "two dogs play and a cat sits"
    with pytest.raises(DataError, match=rf"^writer: '{text}'…: has 29 tokens, and at most 22 are explained at once"):
        inspect_run(run, InspectionRequest(["two", text]))
    with pytest.raises(DataError, match=r"^best: --source-features has no effect"):
        inspect_run(run, InspectionRequest(["two"], source_features=[[0]]), name="best")


def test_unknown_characters_are_reported_with_the_run_and_the_text(run):
    expected = "writer, text 2: characters that are not in the vocabulary: 猫"
    with pytest.warns(InputWarning, match=f"^{expected}$"):
        found = inspect_run(run, InspectionRequest(["two", "a 猫"], tokens=2))
    assert ("note", expected) in found.facts


def test_one_string_instead_of_a_list_is_refused(run):
    with pytest.raises(DataError, match=r"texts is one string\. Give a list of strings\."):
        inspect_run(str(run), InspectionRequest("ROMEO"))
    with pytest.raises(DataError, match=r"targets is one string\. Give a list of strings\."):
        inspect_run(str(run), InspectionRequest(["R"], targets="O"))


def test_missing_kind_of_attention_is_named(run):
    (explanation,) = inspect_run(str(run), InspectionRequest(["the"])).explanations
    with pytest.raises(DataError, match=r"The model has no cross attention\. It has: masked\."):
        explanation.axes("cross")
