"""`dragoman train` for tasks other than translation, and other verbs on their runs."""

import json

import pytest
import yaml

from dragoman.cli import main
from tests.small_tasks import config_of, write_texts

pytestmark = pytest.mark.slow

FEW = ("training.max_steps=3", "training.validate_every=3")
TINY = ("model.d_model=12", "model.num_heads=2", "model.num_layers=1", "model.d_ff=17", "data.context_length=19")


def run(*arguments: object) -> int:
    return main.run([str(argument) for argument in arguments], debug=True)


def options(*assignments: str) -> list[str]:
    return [part for assignment in assignments for part in ("--set", assignment)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folder with corpora, a language model, a classifier and a tagger."""
    place = tmp_path_factory.mktemp("tasks")
    write_texts(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
        patch.chdir(place)
        assert run("train", "--text", "running.txt", "--out", "writer", *options(*FEW, *TINY)) == 0
        for task in ("classification", "tagging"):
            tree = config_of(task, place.relative_to(place))
            (place / f"{task}.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
            assert run("train", f"{task}.yaml", "--data", place, "--out", task, *options(*FEW)) == 0
    return place


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(place)


def test_train_from_a_text_shows_its_configuration(place, tmp_path, capsys):
    out = tmp_path / "writer"
    assert run("train", "--text", "running.txt", "--valid-text", "train.en", "--out", out, *options(*FEW, *TINY)) == 0
    said = capsys.readouterr().err
    for part in (
        "automatic configuration",
        "gpt-nano",
        "tokens of 1 document for training",
        "tokens/s",
        "bits/character",
    ):
        assert part in said
    assert f"dragoman generate {out} --prompt TEXT" in said
    assert "data.valid_size" not in said
    configuration = yaml.safe_load((out / "config.yaml").read_text(encoding="utf-8"))
    assert configuration["task"] == "language_modeling"
    assert configuration["data"]["valid"]["path"] == "train.en"


def test_trained_runs_generate_and_classify(place, capsys):
    assert run("generate", "writer", "--prompt", "two", "--max-new-tokens", 3, "--no-stream") == 0
    assert capsys.readouterr().out.count("\n") >= 1
    (place / "in.txt").write_text("two dogs\na cat\n", encoding="utf-8")
    assert run("classify", "classification", "--input", "in.txt") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_speed_of_a_classifier_is_in_texts(place, tmp_path, capsys):
    assert run("train", "classification.yaml", "--data", place, "--out", tmp_path / "run", *options(*FEW)) == 0
    said = capsys.readouterr().err
    assert "texts/s" in said
    assert "macro-F1" in said


def test_corpus_paths_of_a_run_are_absolute(place):
    configuration = yaml.safe_load((place / "tagging" / "config.yaml").read_text(encoding="utf-8"))
    assert configuration["data"]["train"]["path"] == str(place / "tagged.txt")


@pytest.mark.parametrize(("run_name", "part"), [("writer", "blocks"), ("classification", "head"), ("tagging", "head")])
def test_info_counts_parameters_by_part(run_name, part, capsys):
    assert run("info", run_name) == 0
    out = capsys.readouterr().out
    assert f"  {part}" in out
    assert "MFLOP" in out
    assert "valid: " in out
    assert run("info", run_name, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"]["total"] == sum(count for name, count in facts["parameters"].items() if name != "total")
    assert facts["trained"] is True
    assert facts["result"]["steps"] == 3


def test_compare_runs_of_several_tasks(capsys):
    assert run("compare", "writer", "classification", "tagging") == 0
    lines = capsys.readouterr().out.splitlines()
    tasks, *_ = [line for line in lines if line.startswith("task")]  # settings that differ follow
    assert tasks.split() == ["task", "language", "modeling", "classification", "tagging"]
    assert sum(line.startswith("valid: ") for line in lines) == 3 + 2 + 2
    assert run("compare", "writer", "classification", "--json") == 0
    assert [row["task"] for row in json.loads(capsys.readouterr().out)] == ["language_modeling", "classification"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "writer", "-i", "in.txt"], "writer: is a generator, not a translator"),
        (
            ["generate", "tagging"],
            "tagging: is a tagger, not a generator",
        ),
        (["evaluate", "tagging", "--source", "train.en", "-r", "train.de"], "tagging: is a tagger, not a translator"),
        (
            ["answer", "classification", "--question", "who", "--context", "in.txt"],
            "is a classifier, not a question answerer",
        ),
        (["train", "--resume", "writer"], "writer: the training has ended"),
        (["train", "--text", "running.txt", "--source", "train.en", "--target", "train.de", "--out", "x"], "Leave one"),
        (["train", "--valid-text", "running.txt", "--out", "x"], "--valid-text needs training text"),
        (
            ["train", "--text", "running.txt", "--out", "x", "--set", "preset=tiny"],
            "tiny is for task translation",
        ),
        (["train", "--out", "x"], "No training data"),
        (["compare", "writer", "running.txt"], "running.txt: is not a run folder"),
    ],
)
def test_unsuitable_verb_is_one_message(arguments, message, place, capsys):
    (place / "in.txt").write_text("two dogs\na cat\n", encoding="utf-8")
    assert main.run(arguments, debug=False) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err.splitlines()[-1]
    assert not (place / "x").exists()
