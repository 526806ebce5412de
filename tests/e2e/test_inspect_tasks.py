"""`dragoman inspect` for every task: the numbers are those of the model, and the report shows them."""

import json

import numpy as np
import pytest
import yaml

from dragoman.cli import main
from dragoman.runs.load import load_torch_model
from tests.browser import browser, chromium
from tests.small_tasks import config_of, write_texts

pytestmark = pytest.mark.slow

FEW = ("--set", "training.max_steps=3", "--set", "training.validate_every=3")
CHIPS = "[...document.querySelector('#source').children].map((chip) => Number(chip.dataset.weight))"
CONTEXT = "two dogs play and a man sleeps"
TASKS = {
    "language_modeling": ["--text", "two dogs", "--text", "a man", "--max-new-tokens", 5, "--beam", 3],
    "pairs": ["--text", "two dogs play", "--target", "zwei Hunde"],
    "classification": ["--text", CONTEXT],
    "tagging": ["--text", CONTEXT],
    "question_answering": ["--text", CONTEXT, "--question", "after two"],
}


def run(*arguments: object) -> int:
    return main.run([str(argument) for argument in arguments], debug=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a run of every task, its report and its numbers."""
    place = tmp_path_factory.mktemp("inspected")
    write_texts(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
        patch.chdir(place)
        for task, options in TASKS.items():
            (place / f"{task}.yaml").write_text(yaml.safe_dump(config_of(task, place)), encoding="utf-8")
            assert run("train", f"{task}.yaml", "--out", task, "--device", "cpu", *FEW) == 0
            files = ("--out", f"{task}.html", "--json", f"{task}.json")
            assert run("inspect", task, *options, *files, "--device", "cpu") == 0
    return place


@pytest.fixture(autouse=True)
def inside(place, monkeypatch):
    monkeypatch.chdir(place)


def told(place, task, number=0):
    tree = json.loads((place / f"{task}.json").read_text(encoding="utf-8"))
    return tree["systems"][0]["sentences"][number]


@pytest.mark.parametrize("task", list(TASKS))
def test_weights_sum_to_one_over_allowed_keys(place, task):
    one = told(place, task)
    ((kind, weights),) = one["weights"].items()
    assert kind == ("masked" if task in ("language_modeling", "pairs") else "encoder")
    found, mask = np.array(weights), np.array(one["masks"][kind])
    assert found.shape[2:] == (len(one["inputs"]), len(one["inputs"])) == mask.shape[2:]
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-5)
    assert (found[np.broadcast_to(mask == 0, found.shape)] == 0).all()


def test_given_continuation_keeps_the_whole_prompt(place):
    options = ("--text", "two", "--target", "dogs", "--max-new-tokens", 18, "--json", "given.json", "--device", "cpu")
    assert run("inspect", "language_modeling", *options) == 0
    one = told(place, "given")
    assert one["source"] == ["<bos>", *"two"]
    assert one["target"][:4] == list("dogs")


@pytest.mark.parametrize("number", [0, 1])
def test_continuation_is_the_best_path_of_the_search(place, number):
    one = told(place, "language_modeling", number)
    assert one["task"] == "continuation"
    assert one["inputs"][: len(one["source"])] == one["source"]
    assert one["source"][0] == "<bos>"
    tree = one["beam"]
    assert [tree["steps"][step][at]["token"] for step, at in enumerate(tree["best_path"])] == one["target"]
    totals = [tree["steps"][step][at]["total"] for step, at in enumerate(tree["best_path"])]
    np.testing.assert_allclose(np.cumsum([step["log_prob"] for step in one["predictions"]]), totals, atol=1e-4)


def test_given_continuation_has_the_score_of_scoring(place):
    one, generator = told(place, "pairs"), load_torch_model(place / "pairs", device="cpu")
    [scored] = generator.score(["zwei Hunde"], prompts=["two dogs play"])
    assert one["log_prob"] == pytest.approx(scored.log_prob, abs=1e-4)
    assert one["target"][-1] == "<eos>"


def test_label_is_that_of_the_classifier(place):
    one, classifier = told(place, "classification"), load_torch_model(place / "classification", device="cpu")
    [found] = classifier.classify([CONTEXT])
    [step] = one["predictions"]
    assert step["token"] == found.label
    assert dict(map(tuple, step["alternatives"])) == pytest.approx(dict(found.probabilities), abs=1e-5)
    left_out = one["attributions"]["leave one out"]
    assert left_out["columns"] == CONTEXT.split()
    without = " ".join("xyz" if word == "dogs" else word for word in CONTEXT.split())  # an unknown word
    [less] = classifier.classify([without])
    expected = np.log(found.probability) - np.log(less.probabilities[found.label])
    assert left_out["values"][0][1] == pytest.approx(expected, abs=1e-4)


def test_tags_are_those_of_the_tagger(place):
    one, tagger = told(place, "tagging"), load_torch_model(place / "tagging", device="cpu")
    [found] = tagger.tag([CONTEXT.split()])
    assert one["target"] == [tag.label for tag in found]
    assert [np.exp(step["log_prob"]) for step in one["predictions"]] == pytest.approx(
        [tag.probability for tag in found], abs=1e-5
    )
    assert one["step_positions"] == list(range(1, len(found) + 1))


def test_answer_is_that_of_the_question_answerer(place):
    one, answerer = told(place, "question_answering"), load_torch_model(place / "question_answering", device="cpu")
    found = answerer.answer("after two", CONTEXT)
    assert one["log_prob"] == pytest.approx(found.score, abs=1e-4)
    assert found.text.split()[0] == one["target"][0].strip("▁ ")
    assert found.text.split()[-1] == one["target"][1].strip("▁ ")


@pytest.mark.parametrize("task", list(TASKS))
def test_report_of_every_task_shows_its_attention(place, task):
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed")
    one = told(place, task)
    with browser(program) as shown:
        shown.open(place / f"{task}.html", width=390, height=844)
        assert shown.value("document.documentElement.scrollWidth") <= 390
        (kind,) = one["weights"]
        shown.value("dragoman.change({layer: 0, head: 1})")
        shown.point_at("document.querySelector('#source').children[1]")
        chips = shown.value(
            "[...document.querySelector('#source').children].map((chip) => Number(chip.dataset.weight))"
        )
        np.testing.assert_allclose(chips, one["weights"][kind][0][1][1][: len(one["source"])], atol=1e-4)
        shown.point_at("document.querySelector('#target').children[0]")
        assert f"{np.exp(one['predictions'][0]['log_prob']):.4f}" in shown.text("#prediction-readout")
        if one["step_positions"][0] is not None:
            row = one["weights"][kind][0][1][one["step_positions"][0]][: len(one["source"])]
            chips = shown.value(
                "[...document.querySelector('#source').children].map((chip) => Number(chip.dataset.weight))"
            )
            np.testing.assert_allclose(chips, row, atol=1e-4)
        assert shown.value("document.querySelector('#alignment').hidden")
        assert shown.errors == []


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("question_answering", ["--text", CONTEXT], "Give one --question for each text"),
        (
            "question_answering",
            ["--text", CONTEXT, "--question", "who", "--target", "a cat"],
            "is not a part of the text",
        ),
        ("question_answering", ["--text", CONTEXT * 9, "--question", "who"], "a window with this question"),
        ("classification", ["--text", CONTEXT, "--target", "cats"], "'cats' is not one of the 2 labels"),
        ("classification", ["--text", CONTEXT, "--question", "who"], "--question has no effect"),
        ("tagging", ["--text", CONTEXT, "--target", "A"], "--target has no effect"),
        ("language_modeling", ["--text", "two", "--target", "dogs " * 9], "the context of the model is 19"),
        (
            "language_modeling",
            ["--text", "dogs " * 9, "--target", "two"],
            "has 46 tokens, and at most 18 are explained at once",
        ),
    ],
)
def test_invalid_options_are_refused(task, options, message, capsys):
    assert run("inspect", task, *options, "--out", "never.html") == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_unwritable_output_is_refused_before_the_work(option, capsys):
    assert run("inspect", "no-such-run", "--text", "a", option, "no-such-folder/page") == 2
    assert "no-such-folder/page: cannot be written" in capsys.readouterr().err
