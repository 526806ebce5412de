"""Going on with a run, students and teachers, sources for text without, faults, and recipes that check themselves."""

import json
import math
import shutil
from pathlib import Path

import pytest

from dragoman.models.weights import load_tensors
from tests.small_runs import dragoman, small_options, write_corpus

pytestmark = pytest.mark.slow

SHORT = ("--set", "training.max_steps=6", "--set", "training.validate_every=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run that was trained until its translations come to an end, and text that it has not seen."""
    folder = tmp_path_factory.mktemp("better")
    write_corpus(folder)
    write_corpus(folder, name="more", seed=2, pairs=200)
    longer = small_options(
        training__length="{kind: updates, count: 150}",
        training__interval="{kind: updates, count: 75}",
        training__optimiser="{kind: muon, learning_rate: 0.02}",
    )
    done(folder, "train", "--source", "train.en", "--target", "train.de", "--out", "run", *longer)
    return folder


def done(folder: Path, *arguments: object) -> str:
    """What a command that must succeed says on either stream."""
    answer = dragoman(*arguments, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout + answer.stderr


def lines(path: Path) -> list[str]:
    """The texts of a file; what splits a line for Python may stand in them."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def further(folder: Path, out: str, *options: str) -> str:
    corpora = ("--source", "more.en", "--target", "more.de")
    return done(folder, "train", "--init-from", "run", *corpora, "--out", out, *SHORT, *options)


def test_a_run_is_trained_further_on_new_text(folder):
    said = further(folder, "tuned")
    assert "a fifth of the run's" in said
    assert (folder / "tuned" / "tokenizer.json").read_bytes() == (folder / "run" / "tokenizer.json").read_bytes()
    begun, tuned = (load_tensors(folder / name / "model.safetensors") for name in ("run", "tuned"))
    assert begun.keys() == tuned.keys()
    assert any((begun[name] != tuned[name]).any() for name in begun)


def test_adapters_are_merged_and_going_on_with_them_is_exact(folder):
    further(folder, "adapted", "--set", "training.lora={rank: 3}")
    begun, adapted = (load_tensors(folder / name / "model.safetensors") for name in ("run", "adapted"))
    changed = {name for name in begun if (begun[name] != adapted[name]).any()}
    assert begun.keys() == adapted.keys()
    assert changed == {name for name in begun if name.endswith(("query.weight", "value.weight"))}
    shutil.copytree(folder / "adapted", folder / "again")
    shutil.rmtree(folder / "again" / "checkpoints" / "000000006")
    (folder / "again" / "model.safetensors").unlink()
    done(folder, "train", "--resume", "again")
    whole, again = ((folder / name / "model.safetensors").read_bytes() for name in ("adapted", "again"))
    assert again == whole
    done(folder, "translate", "adapted", "--input", "more.en")


def test_a_vocabulary_is_extended(folder):
    (folder / "ships.en").write_text("the harbour pilot sleeps .\n" * 30, encoding="utf-8")
    (folder / "ships.de").write_text("der Hafenlotse schläft .\n" * 30, encoding="utf-8")
    done(
        *(
            folder,
            "train",
            "--init-from",
            "run",
            "--source",
            "ships.en",
            "--target",
            "ships.de",
            "--out",
            "ships",
            *SHORT,
        ),
        *("--set", "extend_vocabulary=11", "--set", "data.cleaning.remove_duplicates=false"),
        *("--valid-source", "more.en", "--valid-target", "more.de"),
    )
    before, after = (load_tensors(folder / name / "model.safetensors") for name in ("run", "ships"))
    name = "source_embedding.tokens.weight"
    assert len(after[name]) == len(before[name]) + 11


def test_a_student_learns_from_what_its_teacher_writes_and_from_its_distributions(folder):
    said = done(
        folder,
        "distill",
        "run",
        "--source",
        "more.en",
        "--out",
        "taught",
        "--beam",
        4,
        "--choice",
        "minimum-bayes-risk",
    )
    assert "Train a student with: dragoman train --source taught/source.txt" in said
    pairs = [
        (folder / "taught" / name).read_text(encoding="utf-8").splitlines() for name in ("source.txt", "target.txt")
    ]
    origin = json.loads((folder / "taught" / "origin.json").read_text(encoding="utf-8"))
    assert len(pairs[0]) == len(pairs[1]) == origin["pairs"] > 0
    assert origin["pairs"] + origin["left_out"] == 200
    asked = ("--input", "taught/source.txt", "--beam", 4, "--choice", "minimum-bayes-risk")
    assert done(folder, "translate", "run", *asked).splitlines()[: len(pairs[1])] == pairs[1]
    (folder / "student.yaml").write_text(
        "data:\n  train: {kind: files, source: train.en, target: train.de}\n"
        "model: {size: 8, heads: 2, encoder_layers: 1, decoder_layers: 1, feed_forward: 16}\n"
        "training:\n  batch_tokens: 331\n  objective: {kind: distillation, teacher: run}\n",
        encoding="utf-8",
    )
    done(folder, "train", "student.yaml", "--out", "student", *SHORT)
    assert (folder / "student" / "tokenizer.json").read_bytes() == (folder / "run" / "tokenizer.json").read_bytes()


@pytest.fixture(scope="module")
def second(folder) -> str:
    """A run that knows the words of the first and finds others likely."""
    further(folder, "second")
    return "second"


def test_runs_are_asked_together(folder, second):
    rows = []
    for runs in (["run"], [second], ["run", "--ensemble", second]):
        done(folder, "score", *runs, "--source", "more.en", "--target", "more.de", "--format", "jsonl", "-o", "scored")
        rows.append([json.loads(line)["token_log_probs"] for line in lines(folder / "scored")])
    for one, two, both in zip(*rows, strict=True):
        mean = [math.log((math.exp(mine) + math.exp(theirs)) / 2) for mine, theirs in zip(one, two, strict=True)]
        assert both == pytest.approx(mean, abs=1e-4)
    done(folder, "translate", "run", "--ensemble", second, "--input", "more.en", "--output", "both.de")
    said = done(folder, "evaluate", "run", "--ensemble", second, "--source", "more.en", "--reference", "more.de")
    scores = done(folder, "evaluate", "--hypothesis", "both.de", "--reference", "more.de")
    assert said.startswith(scores)  # warnings about single lines may stand behind them


def test_runs_that_were_asked_together_teach_together(folder, second):
    done(folder, "distill", "run", "--ensemble", second, "--source", "more.en", "--out", "taught-by-both")
    origin = json.loads((folder / "taught-by-both" / "origin.json").read_text(encoding="utf-8"))
    assert (origin["run"], [one["run"] for one in origin["beside"]]) == ("run", [second])
    objective = f"training.loss={{kind: distillation, teacher: run, beside: [{second}]}}"
    corpora = ("--source", "more.en", "--target", "more.de", "--out", "taught-by-words")
    done(folder, "train", *corpora, *small_options(), *SHORT, "--set", objective)
    done(folder, "backtranslate", "run", "--ensemble", second, "--monolingual", "more.en", "--out", "back-of-both")


def test_what_cannot_be_asked_together_is_refused(folder, second):
    run = ("translate", "run", "--input", "more.en")
    drawing = ("backtranslate", "run", "--monolingual", "more.en", "--out", "none", "--method", "sampling")
    done(folder, "train", "--source", "more.en", "--target", "more.de", "--out", "stranger", *small_options(), *SHORT)
    for command, message in (
        ((*run, "--ensemble", "stranger"), "stranger: has another tokenizer than run"),
        ((*run, "--ensemble", "nowhere"), "nowhere: no run folder"),
        (
            ("score", "run", "--target", "more.de", "--perplexity", "--ensemble", second),
            "--ensemble has no effect with",
        ),
        ((*drawing, "--ensemble", second), "--ensemble is for --method beam"),
    ):
        answer = dragoman(*command, cwd=folder)
        assert answer.returncode == 2, command
        assert message in " ".join(answer.stderr.split()), answer.stderr


@pytest.mark.parametrize(
    ("method", "how"), [("beam", {"beam": 5}), ("sampling", {"temperature": 1.0, "seed": 0})], ids=["beam", "sampling"]
)
def test_text_without_sources_gets_them(folder, method, how):
    out = f"back-{method}"
    options = ("--method", method, "--out", out)
    done(folder, "backtranslate", "run", "--monolingual", "more.en", *options)
    sources, targets = (lines(folder / out / name) for name in ("source.txt", "target.txt"))
    assert len(sources) == len(targets) > 0
    assert all(source.startswith("<bt> ") for source in sources)
    assert set(targets) <= set(lines(folder / "more.en"))
    origin = json.loads((folder / out / "origin.json").read_text(encoding="utf-8"))
    assert origin.items() >= ({"method": method} | how).items()
    answer = dragoman("backtranslate", "run", "--monolingual", "more.en", *options, cwd=folder)
    assert answer.returncode == 2
    assert "exists already" in answer.stderr


def test_what_a_model_wrote_stands_beside_what_people_wrote(folder):
    corpus = "{kind: files, source: more.en, target: more.de}"
    said = done(
        *(folder, "train", "--source", "train.en", "--target", "train.de", "--out", "mixed", *small_options(), *SHORT),
        *("--valid-source", "more.en", "--valid-target", "more.de", "--set", "data.cleaning.remove_leaks=false"),
        *(
            "--set",
            "data.cleaning.remove_duplicates=false",
            "--set",
            f"data.extra_corpora=[{{corpus: {corpus}, times: 2}}]",
        ),
    )
    assert "500 pairs to learn from" in said
    assert "times: 2.0" in (folder / "mixed" / "config.yaml").read_text(encoding="utf-8")


def test_what_would_have_no_effect_is_refused(folder):
    for options, message in (
        (("--seed", "3"), "--temperature and --seed are for --method sampling"),
        (("--method", "sampling", "--beam", "3"), "--beam is for --method beam"),
    ):
        answer = dragoman("backtranslate", "run", "--monolingual", "more.en", "--out", "none", *options, cwd=folder)
        assert answer.returncode == 2
        assert message in answer.stderr
        assert not (folder / "none").exists()


def test_faults_are_given_before_a_run_translates(folder):
    asked = ("evaluate", "run", "--source", "more.en", "--reference", "more.de")
    said = done(folder, *asked, "--perturb", "typos")
    assert "typos: 200 of 200 sentences are changed" in said
    assert done(folder, *asked, "--perturb", "typos") == said
    answer = dragoman(
        "evaluate", "--hypothesis", "more.en", "--reference", "more.de", "--perturb", "capitals", cwd=folder
    )
    assert answer.returncode == 2
    assert "not both" in answer.stderr


def recipe(folder: Path, *, value: float) -> None:
    small = "\n".join(f"  {line}" for line in ("batch_tokens: 331", "length: {kind: updates, count: 3}"))
    (folder / "recipe.yaml").write_text(
        "preset: nano\ndata:\n  train: {kind: files, source: train.en, target: train.de}\n"
        f"training:\n{small}\nexpected:\n  - {{set: valid, metric: BLEU, value: {value}, tolerance: 1.0}}\n",
        encoding="utf-8",
    )


def test_a_recipe_says_whether_it_holds(folder):
    recipe(folder, value=0.5)
    asked = ("reproduce", "recipe.yaml", "--data", ".", "--out", "reproduced", "--seed", 1, "--seed", 2)
    said = done(folder, *asked)
    assert "The result holds: seeds 1, 2," in said
    assert "nrefs:1" in said
    found = json.loads((folder / "reproduced" / "reproduced.json").read_text(encoding="utf-8"))
    assert found["holds"]
    assert found["seeds"] == [1, 2]
    assert len(found["scores"][0]["values"]) == 2
    recipe(folder, value=90.0)  # what was trained stays, and falls short of more
    answer = dragoman(*asked, cwd=folder)
    assert answer.returncode == 1
    assert "The result does not hold" in answer.stdout
    assert "update" not in answer.stderr


def test_a_recipe_that_promises_nothing_cannot_be_checked(folder):
    (folder / "silent.yaml").write_text("preset: nano\n", encoding="utf-8")
    answer = dragoman("reproduce", "silent.yaml", "--data", ".", cwd=folder)
    assert answer.returncode == 2
    assert "says nothing of the scores it should reach" in answer.stderr


def test_what_a_recipe_promises_is_no_setting(folder):
    recipe(folder, value=1.0)
    done(folder, "train", "recipe.yaml", "--out", "plain")
    assert "expected" not in (folder / "plain" / "config.yaml").read_text(encoding="utf-8")
