"""Recipes under examples/: valid configurations with expected scores."""

from pathlib import Path

import pytest

from dragoman.runs.config import parse_experiment, read_settings
from dragoman.runs.reproduce import read_expected_scores

FOLDER = Path(__file__).parents[3] / "examples"
RECIPES = sorted(FOLDER.glob("*.yaml"))


def test_recipes_exist():
    assert RECIPES


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_valid_and_shows_its_command(recipe):
    experiment = parse_experiment(read_settings(recipe, []), where=recipe.name)
    assert experiment.task
    assert f"dragoman train examples/{recipe.name}" in recipe.read_text(encoding="utf-8")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe_has_expected_scores(recipe):
    experiment = parse_experiment(read_settings(recipe, []), where=recipe.name)
    for expected in read_expected_scores(recipe):
        assert expected.set == "valid" or experiment.data.test is not None
