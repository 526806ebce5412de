"""Scores of translations: references as they are written, in training, in `dragoman.evaluate` and in the demo."""

import json
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.train_in_folder import train_in_folder
from dragoman.tasks.factory import build_task
from dragoman_demo.run import DEMO_SETTINGS, corpus_dir, translate_held_out

METRICS = ["exact", "bleu", "chrf"]
TOKENIZER = {"kind": "bpe", "vocab_size": 60, "byte_fallback": False}
TOKENIZERS = {
    "folding": {**TOKENIZER, "casing": "lower"},
    "faithful": {**TOKENIZER, "whitespace": "keep"},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run with each tokenizer, trained until it knows three amounts, on which it is scored."""
    folder = tmp_path_factory.mktemp("amounts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(folder / "cache"))
        return {name: train_on_amounts(folder / name, tokenizer) for name, tokenizer in TOKENIZERS.items()}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


def train_on_amounts(path: Path, tokenizer: dict[str, object]) -> RunFolder:
    """Train on amounts whose targets have a no-break space and a capital."""
    run, amounts = RunFolder(path), ["1 euro", "2 euro", "3 euro"] * 20
    corpus = corpus_dir(run)
    corpus.mkdir(parents=True)
    files = {"kind": "files", "source": str(corpus / "test.en"), "target": str(corpus / "test.fr")}
    targets = [amount.replace(" euro", "\u00a0Euro") for amount in amounts]
    for name, lines in (("en", amounts), ("fr", targets), ("family", ["money"] * len(amounts))):
        (corpus / f"test.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    cleaning = {"remove_copies": False, "remove_duplicates": False, "remove_leaks": False}
    sizes = {"d_model": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 64}
    tree = {
        "data": {"train": files, "valid": files, "test": files, "cleaning": cleaning},
        "tokenizer": tokenizer,
        "model": {**sizes, "dropout": {"embedding": 0.0, "residual": 0.0}},
        "training": {
            "max_steps": 50,
            "validate_every": 25,
            "batch_tokens": 150,
            "optimizer": {"kind": "adamw", "learning_rate": 0.01},
            "schedule": {"kind": "cosine", "warmup": 10},
        },
        "decoding": {"beam_size": 1},
        "metrics": [{"kind": kind} for kind in METRICS],
    }
    experiment = parse_experiment(tree)
    run.write_config(experiment)
    train_in_folder(run, experiment, device=torch.device("cpu"))
    return run


@pytest.mark.parametrize("name", TOKENIZERS)
def test_training_evaluate_and_demo_agree(runs, name):
    run = runs[name]
    files = {"source": corpus_dir(run) / "test.en", "reference": corpus_dir(run) / "test.fr"}
    found = dragoman.evaluate(run.path, **files, metrics=METRICS, device="cpu")
    expected = [(score.metric, score.value, score.signature) for score in found]
    for scores in run.read_scores()["scores"].values():
        assert [(score["metric"], score["value"], score["signature"]) for score in scores] == expected
    assert all(f"| {value:.2f} | `" in run.model_card.read_text(encoding="utf-8") for _, value, _ in expected)
    events = map(json.loads, run.metrics.read_text(encoding="utf-8").splitlines())
    assert max(event["scores"]["exact"] for event in events if event["event"] == "validation") == expected[0][1]
    demo = translate_held_out(dragoman.load(run.path, device="cpu"), run)
    assert [(score.metric, score.value, score.signature) for score in (demo.exact, demo.bleu)] == expected[:2]
    assert demo.by_family() == {"money": (round(0.6 * expected[0][1]), 60)}
    assert expected[0][1] == (100 if name == "faithful" else 0)


def test_targets_that_the_tokenizer_changes_are_noted(runs):
    notes = {}
    for name, run in runs.items():
        data = build_task(run.read_config()).prepare_data(run, report=lambda _: None)
        notes[name] = [note for note in data.notes if note.startswith("tokenizer.")]
        assert all(f"- {note}\n" in run.model_card.read_text(encoding="utf-8") for note in notes[name])
    assert notes["faithful"] == []
    assert [note.split(", so no")[0] for note in notes["folding"]] == [
        "tokenizer.whitespace = collapse changes 60 of 60 validation targets (no-break space)",
        "tokenizer.casing = lower changes 60 of 60 validation targets",
    ]


def test_demo_writes_the_spaces_of_its_corpus():
    assert DEMO_SETTINGS["tokenizer"]["whitespace"] == "keep"
