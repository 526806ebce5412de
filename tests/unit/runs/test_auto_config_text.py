"""Automatic configuration of language modeling: choices, and given settings that they do not change."""

import pytest
import torch

from dragoman.config import override
from dragoman.errors import ConfigError, DataError
from dragoman.runs import auto_config
from dragoman.runs.auto_config import auto_configure_text, text_choices
from dragoman.runs.config import parse_experiment

CPU = torch.device("cpu")


@pytest.fixture
def tree(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("two dogs play in the house .\n" * 100, encoding="utf-8")
    return {"data": {"train": {"kind": "text", "path": str(text)}}}


def keys(choices):
    return {choice.key for choice in choices}


def test_small_text_gets_a_small_model(tree):
    experiment, choices = auto_configure_text(tree, device=CPU)
    assert (experiment.task, experiment.model.d_model, experiment.data.context_length) == (
        "language_modeling",
        128,
        128,
    )
    assert experiment.tokenizer.vocab_size == 1000
    assert experiment.tokenizer.whitespace == "keep"
    assert experiment.model.dropout.residual == 0.2
    assert keys(choices) == {
        "data.valid_size",
        "preset",
        "tokenizer.vocab_size",
        "model.dropout.embedding",
        "model.dropout.residual",
        "training.batch_tokens",
        "training.max_epochs",
        "training.patience",
        "training.schedule.warmup",
    }
    assert all(choice.reason and str(choice) for choice in choices)
    assert parse_experiment(experiment.model_dump(mode="json")) == experiment


@pytest.mark.parametrize(
    ("assignment", "key"),
    [
        ("preset=gpt-tiny", "preset"),
        ("tokenizer.kind=characters", "tokenizer.vocab_size"),
        ("model.dropout.residual=0.05", "model.dropout.residual"),
        ("training.batch_tokens=777", "training.batch_tokens"),
        ("training.max_epochs=2", "training.max_epochs"),
        ("training.schedule.warmup=17", "training.schedule.warmup"),
        ("data.valid_size=0.3", "data.valid_size"),
    ],
)
def test_given_settings_are_not_chosen(tree, assignment, key):
    _, all_choices = auto_configure_text(tree, device=CPU)
    _, choices = auto_configure_text(override(tree, [assignment]), device=CPU)
    left_out = {key} | ({"training.patience"} if key == "training.max_epochs" else set())
    assert keys(choices) == keys(all_choices) - left_out


def test_warmup_follows_the_number_of_steps(tree):
    experiment, _ = auto_configure_text(override(tree, ["training.max_steps=50"]), device=CPU)
    assert (experiment.training.max_steps, experiment.training.max_epochs) == (50, None)
    assert experiment.training.schedule.warmup == 5


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.warmpu=3", "training.warmpu: no such key"),
        ("preset=tiny", "preset: tiny is for task translation, and this is task language_modeling"),
        ("task=tagging", "--text is for language_modeling"),
        ("metrics=[]", "metrics: no such key. It belongs to task translation"),
    ],
)
def test_errors_are_raised_before_the_text_is_read(tree, assignment, message, monkeypatch):
    def reading(*_):
        raise DataError("the text is read")

    monkeypatch.setattr(auto_config, "prepare_text", reading)
    with pytest.raises(ConfigError, match=message):
        auto_configure_text(override(tree, [assignment]), device=CPU)


@pytest.mark.parametrize(
    ("characters", "device", "preset"),
    [
        (1_000_000, "cpu", "gpt-nano"),
        (50_000_000, "cpu", "gpt-tiny"),
        (900_000_000, "cpu", "gpt-tiny"),
        (1_000_000, "cuda", "gpt-nano"),
        (50_000_000, "cuda", "gpt-tiny"),
        (900_000_000, "cuda", "gpt-small"),
    ],
)
def test_preset_grows_with_the_text(tree, characters, device, preset):
    asked = parse_experiment({"task": "language_modeling", **tree})
    choices = {choice.key: choice.value for choice in text_choices({}, asked, characters, torch.device(device))}
    assert choices["preset"] == preset
    assert 3 <= choices["training.max_epochs"] <= 60
    assert 1000 <= choices["tokenizer.vocab_size"] <= 32_000
