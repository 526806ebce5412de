"""Fine-tuning, distillation, ensembles, back-translation, perturbed evaluation and reproducing recipes."""

import json
import math
import shutil
from pathlib import Path

import pytest

from dragoman.models.weight_storage import load_tensors
from tests.small_runs import dragoman, small_options, write_corpus

pytestmark = pytest.mark.slow

SHORT = ("--set", "training.max_steps=6", "--set", "training.validate_every=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Folder with a run trained until its translations end, and further text."""
    folder = tmp_path_factory.mktemp("better")
    write_corpus(folder)
    write_corpus(folder, name="more", seed=2, pairs=200)
    longer = small_options(
        training__max_steps=150,
        training__validate_every=75,
        training__optimizer="{kind: muon, learning_rate: 0.02}",
    )
    done(folder, "train", "--source", "train.en", "--target", "train.de", "--out", "run", *longer)
    return folder


def done(folder: Path, *arguments: object) -> str:
    """Return both streams of a command that must succeed."""
    answer = dragoman(*arguments, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout + answer.stderr


def lines(path: Path) -> list[str]:
    """Return the lines of a file, split at line feeds only."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def further(folder: Path, out: str, *options: str) -> str:
    corpora = ("--source", "more.en", "--target", "more.de")
    return done(folder, "train", "--init-from", "run", *corpora, "--out", out, *SHORT, *options)


def test_fine_tuning_on_new_text(folder):
    said = further(folder, "tuned")
    assert "a fifth of the initial run's" in said
    assert (folder / "tuned" / "tokenizer.json").read_bytes() == (folder / "run" / "tokenizer.json").read_bytes()
    begun, tuned = (load_tensors(folder / name / "model.safetensors") for name in ("run", "tuned"))
    assert begun.keys() == tuned.keys()
    assert any((begun[name] != tuned[name]).any() for name in begun)


def test_lora_is_merged_and_resumes_exactly(folder):
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


def test_vocabulary_extension(folder):
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


def test_distillation_by_sequences_and_by_words(folder):
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
        "--decoding",
        "mbr",
    )
    assert "Train a student with: dragoman train --source taught/source.txt" in said
    pairs = [
        (folder / "taught" / name).read_text(encoding="utf-8").splitlines() for name in ("source.txt", "target.txt")
    ]
    origin = json.loads((folder / "taught" / "origin.json").read_text(encoding="utf-8"))
    assert len(pairs[0]) == len(pairs[1]) == origin["pairs"] > 0
    assert origin["pairs"] + origin["left_out"] == 200
    asked = ("--input", "taught/source.txt", "--beam", 4, "--decoding", "mbr")
    assert done(folder, "translate", "run", *asked).splitlines()[: len(pairs[1])] == pairs[1]
    (folder / "student.yaml").write_text(
        "data:\n  train: {kind: files, source: train.en, target: train.de}\n"
        "model: {d_model: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1, d_ff: 16}\n"
        "training:\n  batch_tokens: 331\n  loss: {kind: distillation, teacher: run}\n",
        encoding="utf-8",
    )
    done(folder, "train", "student.yaml", "--out", "student", *SHORT)
    assert (folder / "student" / "tokenizer.json").read_bytes() == (folder / "run" / "tokenizer.json").read_bytes()


@pytest.fixture(scope="module")
def second(folder) -> str:
    """Second run with the tokenizer of the first."""
    further(folder, "second")
    return "second"


def test_ensemble_averages_probabilities(folder, second):
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
    assert said.splitlines()[:3] == scores.splitlines()[:3]  # warnings about single lines may follow the table


def test_ensemble_writes_pseudo_data(folder, second):
    done(folder, "distill", "run", "--ensemble", second, "--source", "more.en", "--out", "taught-by-both")
    origin = json.loads((folder / "taught-by-both" / "origin.json").read_text(encoding="utf-8"))
    assert (origin["run"], [one["run"] for one in origin["ensemble"]]) == ("run", [second])
    loss = f"training.loss={{kind: distillation, teacher: run, extra_teachers: [{second}]}}"
    corpora = ("--source", "more.en", "--target", "more.de", "--out", "taught-by-words")
    done(folder, "train", *corpora, *small_options(), *SHORT, "--set", loss)
    done(folder, "backtranslate", "run", "--ensemble", second, "--monolingual", "more.en", "--out", "back-of-both")


def test_ensemble_errors(folder, second):
    run = ("translate", "run", "--input", "more.en")
    sampling = ("backtranslate", "run", "--monolingual", "more.en", "--out", "none", "--method", "sampling")
    done(folder, "train", "--source", "more.en", "--target", "more.de", "--out", "stranger", *small_options(), *SHORT)
    for command, message in (
        ((*run, "--ensemble", "stranger"), "stranger: has another tokenizer than run"),
        ((*run, "--ensemble", "nowhere"), "nowhere: is not a run folder"),
        (
            ("score", "run", "--target", "more.de", "--perplexity", "--ensemble", second),
            "--ensemble",
        ),
        ((*sampling, "--ensemble", second), "--ensemble"),
    ):
        answer = dragoman(*command, cwd=folder)
        assert answer.returncode == 2, command
        assert message in " ".join(answer.stderr.split()), answer.stderr


@pytest.mark.parametrize(
    ("method", "how"),
    [("beam", {"beam_size": 5}), ("sampling", {"temperature": 1.0, "seed": 0})],
    ids=["beam", "sampling"],
)
def test_backtranslation(folder, method, how):
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
    assert "never overwritten" in answer.stderr


def test_extra_corpora(folder):
    corpus = "{kind: files, source: more.en, target: more.de}"
    said = done(
        *(folder, "train", "--source", "train.en", "--target", "train.de", "--out", "mixed", *small_options(), *SHORT),
        *("--valid-source", "more.en", "--valid-target", "more.de", "--set", "data.cleaning.remove_leaks=false"),
        *(
            "--set",
            "data.cleaning.remove_duplicates=false",
            "--set",
            f"data.extra_corpora=[{{corpus: {corpus}, weight: 2}}]",
        ),
    )
    assert "500 pairs for training" in said
    assert "weight: 2.0" in (folder / "mixed" / "config.yaml").read_text(encoding="utf-8")


def test_backtranslation_options_without_effect(folder):
    for options, message in (
        (("--seed", "3"), "--seed"),
        (("--method", "sampling", "--beam", "3"), "--beam"),
    ):
        answer = dragoman("backtranslate", "run", "--monolingual", "more.en", "--out", "none", *options, cwd=folder)
        assert answer.returncode == 2
        assert message in answer.stderr
        assert not (folder / "none").exists()


def test_evaluation_with_perturbed_sources(folder):
    asked = ("evaluate", "run", "--source", "more.en", "--reference", "more.de")
    said = done(folder, *asked, "--perturb", "typos")
    assert "typos: changed 200 of 200" in said
    assert done(folder, *asked, "--perturb", "typos") == said
    answer = dragoman(
        "evaluate", "--hypothesis", "more.en", "--reference", "more.de", "--perturb", "uppercase", cwd=folder
    )
    assert answer.returncode == 2
    assert "--perturb" in answer.stderr


def recipe(folder: Path, *, value: float) -> None:
    small = "\n".join(f"  {line}" for line in ("batch_tokens: 331", "max_steps: 3"))
    (folder / "recipe.yaml").write_text(
        "preset: nano\ndata:\n  train: {kind: files, source: train.en, target: train.de}\n"
        f"training:\n{small}\nexpected:\n  - {{set: valid, metric: BLEU, value: {value}, tolerance: 1.0}}\n",
        encoding="utf-8",
    )


def test_reproduce_checks_expected_scores(folder):
    recipe(folder, value=0.5)
    asked = ("reproduce", "recipe.yaml", "--data", ".", "--out", "reproduced", "--seed", 1, "--seed", 2)
    said = done(folder, *asked)
    assert "The result holds: seeds 1, 2," in said
    assert "nrefs:1" in said
    found = json.loads((folder / "reproduced" / "reproduced.json").read_text(encoding="utf-8"))
    assert found["passed"]
    assert found["seeds"] == [1, 2]
    assert len(found["scores"][0]["values"]) == 2
    recipe(folder, value=90.0)  # the trained runs are kept, and miss the new score
    answer = dragoman(*asked, cwd=folder)
    assert answer.returncode == 1
    assert "The result does not hold" in answer.stdout
    assert "step" not in answer.stderr


def test_reproduce_needs_expected_scores(folder):
    (folder / "silent.yaml").write_text("preset: nano\n", encoding="utf-8")
    answer = dragoman("reproduce", "silent.yaml", "--data", ".", cwd=folder)
    assert answer.returncode == 2
    assert "has no expected scores" in answer.stderr


def test_expected_scores_are_no_setting(folder):
    recipe(folder, value=1.0)
    done(folder, "train", "recipe.yaml", "--out", "plain")
    assert "expected" not in (folder / "plain" / "config.yaml").read_text(encoding="utf-8")
