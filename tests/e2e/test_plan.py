"""`dragoman plan` and `training.batch_tokens: auto` on the command line."""

import json
from pathlib import Path

import pytest
import yaml

from tests.small_runs import dragoman, hashes, small_options, write_corpus

pytestmark = pytest.mark.slow

FILES = ("--source", "train.en", "--target", "train.de")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a corpus and a recipe."""
    place = tmp_path_factory.mktemp("plan")
    write_corpus(place)
    tree = {"preset": "nano", "data": {"train": {"kind": "files", "source": "train.en", "target": "train.de"}}}
    (place / "recipe.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return place


def test_plan_as_json_writes_no_files(place):
    before = hashes(place)
    answer = dragoman("plan", "recipe.yaml", "--data", ".", *small_options(), "--price", "1.2", "--json", cwd=place)
    assert answer.returncode == 0, answer.stderr
    assert hashes(place) == before
    found = json.loads(answer.stdout)
    assert found["steps"] == 23
    assert found["batch_tokens"] == 331
    assert found["fits"]
    assert found["max_batch_tokens"] > 331
    memory, time = found["memory"], found["time"]
    assert memory["weights"] == 4 * found["parameters"]
    assert sum(memory.values()) == 2 * memory["total"]
    assert sum(time.values()) == pytest.approx(2 * time["total"])
    assert found["cost"] == pytest.approx(1.2 * time["total"] / 3600)


def test_plan_from_two_files_is_printed(place):
    answer = dragoman("plan", *FILES, *small_options(), "--devices", "3", "--price", "2", cwd=place)
    assert answer.returncode == 0, answer.stderr
    few = "pairs for training are few: a few thousand pairs rarely give"
    for part in ("parameters", "weights", "activations", "batch tokens: 331", "23 steps", "cost: ", "× 3", few):
        assert part in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["nothing.yaml"], ["nothing.yaml: cannot be read"]),
        ([], ["No training data"]),
        (
            ["--text", "train.en", "--init-from", "run"],
            ["run: is not a run folder"],
        ),
        ([*FILES, *small_options(), "--memory", "1MiB"], ["1 MiB of memory is too small for any batch"]),
        ([*FILES, *small_options(), "--memory", "much"], ["is not a memory size"]),
        (["--source", "train.en", "--target", "absent.de", *small_options()], ["absent.de"]),
        ([*FILES, *small_options(training__batch_tokens=3)], ["exceed the budget of 3 tokens"]),
    ],
)
def test_invalid_plan_gives_one_error_message(place, arguments, parts):
    answer = dragoman("plan", *arguments, cwd=place)
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    [message] = [line for line in answer.stderr.splitlines() if line.startswith("dragoman: ")]
    assert "Traceback" not in answer.stderr
    for part in parts:
        assert part in message


def test_auto_batch_tokens_are_reported_and_stored(place):
    asked = small_options(training__batch_tokens="auto")
    answer = dragoman("train", *FILES, "--out", "run", *asked, cwd=place)
    assert answer.returncode == 0, answer.stderr
    [said] = [line for line in answer.stderr.splitlines() if line.startswith("training.batch_tokens: ")]
    assert said.startswith("training.batch_tokens: 4,096, suitable for a CPU;")
    written = yaml.safe_load((place / "run" / "config.yaml").read_text(encoding="utf-8"))
    assert written["training"]["batch_tokens"] == 4096
    planned = dragoman("plan", *FILES, *asked, "--memory", "8GiB", "--json", cwd=place)
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["batch_tokens"] == 4096


def test_recipe_with_auto_batch_tokens_is_reproduced(place):
    recipe = (place / "recipe.yaml").read_text(encoding="utf-8")
    expected = "\nexpected:\n  - {set: valid, metric: BLEU, value: 50, tolerance: 50}\n"
    (place / "expecting.yaml").write_text(recipe + expected, encoding="utf-8")
    arguments = ("reproduce", "expecting.yaml", "--data", ".", "--out", "again")
    arguments += tuple(small_options(training__batch_tokens="auto", training__max_steps=2))
    first, second = (dragoman(*arguments, cwd=place) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "starting:" in first.stderr
    assert "starting:" not in second.stderr
