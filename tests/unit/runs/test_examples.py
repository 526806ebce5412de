"""The recipes under examples/ are configurations that can be obeyed."""

from pathlib import Path

import pytest

from dragoman.runs.config import parse_experiment, read_settings
from dragoman.runs.reproduce import read_expected_scores

FOLDER = Path(__file__).parents[3] / "examples"
RECIPES = sorted(FOLDER.glob("*.yaml"))


def test_there_are_recipes():
    assert RECIPES


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_obeyed_and_says_how_it_is_used(recipe):
    experiment = parse_experiment(read_settings(recipe, []), where=recipe.name)
    assert experiment.task
    assert f"dragoman train examples/{recipe.name}" in recipe.read_text(encoding="utf-8")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_says_what_it_should_reach(recipe):
    experiment = parse_experiment(read_settings(recipe, []), where=recipe.name)
    for expectation in read_expected_scores(recipe):
        assert expectation.set == "valid" or experiment.data.test is not None
