"""Fine-tuning of language models and of models with a head: all weights, or low-rank adapters."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dragoman
from dragoman.errors import ConfigError, RunError
from dragoman.models.weight_quantization import Arrays, load_arrays
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.train import resume
from tests.untrained_runs import PAIRS, finished_language_model, finished_run

TEXT = "two dogs play . a cat sits by the sea . "
TRAINING = {"batch_tokens": 97, "max_steps": 3, "validate_every": 2, "log_every": 1}
MODEL = {"d_model": 12, "num_heads": 2, "num_layers": 1, "d_ff": 17}


@pytest.fixture
def initial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "story.txt").write_text(TEXT * 40)
    return finished_language_model(tmp_path / "initial")


def changed_weights(before: RunFolder, after: RunFolder) -> set[str]:
    old, new = load_arrays(before.weights), load_arrays(after.weights)
    assert old.keys() == new.keys()
    return {name for name in old if not np.array_equal(old[name], new[name])}


def finetune(initial: RunFolder, name: str, **training: Any) -> RunFolder:
    folder = initial.path.parent
    text = folder / "story.txt"
    dragoman.train(text=text, init_from=initial.path, output_dir=folder / name, device="cpu", **TRAINING, **training)
    return RunFolder(folder / name)


def test_all_weights_are_trained_from_those_of_the_run(initial: RunFolder) -> None:
    tuned = finetune(initial, "tuned")
    assert tuned.read_tokenizer().fingerprint == initial.read_tokenizer().fingerprint
    experiment, before = tuned.read_config(), initial.read_config()
    assert experiment.model == before.model
    assert experiment.data.context_length == before.data.context_length
    rate = before.training.optimizer.learning_rate / 5
    assert experiment.training.optimizer.learning_rate == pytest.approx(rate)
    assert changed_weights(initial, tuned) == set(load_arrays(initial.weights))
    old, new = (load_arrays(run.weights)["blocks.0.attention.query.weight"] for run in (initial, tuned))
    assert np.abs(old - new).max() < 0.01
    assert "initialized from initial" in tuned.read_model_card()


def test_adapters_change_their_matrices_only(initial: RunFolder) -> None:
    tuned = finetune(initial, "tuned", lora={"rank": 2, "targets": ["query", "outer"]})
    assert changed_weights(initial, tuned) == {
        f"blocks.{layer}.{name}.weight" for layer in range(2) for name in ("attention.query", "feed_forward.outer")
    }
    assert dragoman.load(tuned.path, dragoman.Generator).generate("two", max_new_tokens=5, temperature=0).text


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, {"rank": 2}], ids=["all weights", "LoRA"])
def test_lengthened_finetuning_equals_an_uninterrupted_one(initial: RunFolder, lora: dict[str, Any] | None) -> None:
    constant = {"schedule": {"kind": "constant", "warmup": 1}, "lora": lora}
    whole = finetune(initial, "whole", **constant)
    dragoman.train(
        text=initial.path.parent / "story.txt",
        init_from=initial.path,
        output_dir=initial.path.parent / "parts",
        device="cpu",
        **{**TRAINING, "max_steps": 2},
        **constant,
    )
    parts = initial.path.parent / "parts"
    resume(parts, overrides={"training.max_steps": 3}, device="cpu")
    found, expected = (_last_checkpoint(run) for run in (parts, whole.path))
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in found)


def _last_checkpoint(run: Path) -> Arrays:
    (path,) = (run / "checkpoints" / f"{3:09}").glob("model*.safetensors")
    return load_arrays(path)


def test_prompts_are_finetuned_by_a_configuration(initial: RunFolder) -> None:
    folder = initial.path.parent
    sides = [folder / name for name in ("train.en", "train.de")]
    for path, texts in zip(sides, zip(*PAIRS, strict=True), strict=True):
        path.write_text("".join(f"{text[:9]}{number}\n" for number in range(23) for text in texts))
    data = {"kind": "pairs", "train": {"kind": "files", "source": str(sides[0]), "target": str(sides[1])}}
    data |= {"max_source_length": 19, "max_target_length": 19, "valid_size": 2}
    tree = {"task": "language_modeling", "init_from": str(initial.path), "data": data}
    tree["training"] = {**TRAINING, "lora": {"rank": 2}}
    result = dragoman.train(tree, output_dir=folder / "tuned", device="cpu")
    assert changed_weights(initial, RunFolder(result.path)) == {
        f"blocks.{layer}.attention.{name}.weight" for layer in range(2) for name in ("query", "value")
    }


def test_head_is_trained_next_to_adapters(initial: RunFolder) -> None:
    folder = initial.path.parent
    lines = [
        f"{'play' if number % 2 else 'sea'}\ttwo {number} {'dogs' if number % 2 else 'cats'}\n" for number in range(40)
    ]
    (folder / "labeled.tsv").write_text("".join(lines))
    corpus = {"kind": "tsv", "path": str(folder / "labeled.tsv"), "label_column": 1, "text_column": 2}
    tree = {"task": "classification", "init_from": str(initial.path), "data": {"train": corpus, "max_length": 23}}
    tree |= {"head": {"pooling": "last"}, "training": {**TRAINING, "lora": {"rank": 2}}}
    result = dragoman.train(tree, output_dir=folder / "classifier", device="cpu")
    old, new = load_arrays(initial.weights), load_arrays(RunFolder(result.path).weights)
    names = {name: next((own for own in new if own.endswith(f".{name}")), "") for name in old}
    changed = {name for name, own in names.items() if own and not np.array_equal(old[name], new[own])}
    assert changed == {f"blocks.{layer}.attention.{name}.weight" for layer in range(2) for name in ("query", "value")}
    assert any(name.startswith("head.") for name in new)


def test_masked_language_model_continues_from_another(initial: RunFolder) -> None:
    folder = initial.path.parent
    tree = {
        "task": "masked_lm",
        "data": {"train": {"kind": "text", "path": str(folder / "story.txt")}, "context_length": 17},
        "tokenizer": {"kind": "characters"},
        "model": MODEL,
        "training": TRAINING,
    }
    dragoman.train(tree, output_dir=folder / "first", device="cpu")
    second = {"task": "masked_lm", "init_from": str(folder / "first"), "data": tree["data"]}
    second["training"] = {**TRAINING, "lora": {"rank": 2}}
    dragoman.train(second, output_dir=folder / "second", device="cpu")
    assert changed_weights(RunFolder(folder / "first"), RunFolder(folder / "second")) == {
        f"blocks.0.attention.{name}.weight" for name in ("query", "value")
    }


def test_translator_is_no_start_of_a_language_model(initial: RunFolder) -> None:
    translator = finished_run(initial.path.parent / "translator")
    with pytest.raises(
        RunError, match=r"is a run of task translation\. Initialize from a run of task language_modeling"
    ):
        finetune(translator, "tuned")


@pytest.mark.parametrize("task", ["language_modeling", "masked_lm", "classification"])
def test_adapters_need_an_initial_run(task: str) -> None:
    corpus = {"kind": "tsv", "path": "x.tsv"} if task == "classification" else {"kind": "text", "path": "x.txt"}
    tree = {"task": task, "data": {"train": corpus}, "training": {"lora": {}}}
    with pytest.raises(ConfigError, match=r"training\.lora extends the model of another run"):
        parse_experiment(tree)
