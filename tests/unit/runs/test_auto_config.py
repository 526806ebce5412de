"""Automatic configuration of translation: choices, and given settings that they do not change."""

import re

import pytest
import torch

from dragoman.config import override
from dragoman.errors import ConfigError, DataError
from dragoman.runs import auto_config
from dragoman.runs.auto_config import Choice, CorpusSize, auto_configure, translation_choices
from dragoman.runs.config import parse_experiment
from tests.small_runs import write_corpus

CPU = torch.device("cpu")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    source, target = write_corpus(tmp_path, pairs=211)
    return {"data": {"train": {"kind": "files", "source": str(source), "target": str(target)}}}


def keys(choices: list[Choice]) -> set[str]:
    return {choice.key for choice in choices}


def test_small_corpus_gets_a_small_model(tree):
    experiment, choices = auto_configure(tree, device=CPU)
    assert experiment.model.d_model == 96
    assert experiment.tokenizer.vocab_size == 1000
    assert experiment.model.dropout.residual == 0.3
    assert experiment.training.patience == 8
    assert keys(choices) == {
        "data.valid_size",
        "preset",
        "tokenizer.vocab_size",
        "model.dropout.embedding",
        "model.dropout.residual",
        "model.positions",
        "training.optimizer",
        "training.batch_tokens",
        "training.max_epochs",
        "training.patience",
        "training.schedule.warmup",
        "source_language",
        "target_language",
    }
    assert all(choice.reason and str(choice) for choice in choices)
    [length] = [choice for choice in choices if choice.key == "training.max_epochs"]
    assert length.value == experiment.training.max_epochs
    assert re.search(r" about \d(,?\d)?(,?0)* tokens", length.reason), "two digits"
    assert "steps" not in length.reason, "their number depends on the tokenizer and on padding"


@pytest.mark.parametrize(
    "assignment",
    ["model.num_heads=32", "model.positions.join=concatenate", "model.attention.encoder.pattern.kind=linformer"],
)
def test_rotary_positions_are_chosen_where_valid(tree, assignment):
    plain, _ = auto_configure(tree, device=CPU)
    assert plain.model.positions.kind == "rotary"
    experiment, _ = auto_configure(override(tree, [assignment]), device=CPU)
    assert experiment.model.positions.kind == "sinusoidal"
    student, _ = auto_configure({**tree, "preset": "student-tiny"}, device=CPU)
    assert student.model.positions.order == "halves"


def test_recurrent_model_gets_neither_positions_nor_muon(tree):
    experiment, choices = auto_configure(override(tree, ["preset=lstm"]), device=CPU)
    assert experiment.training.optimizer.kind == "adam"
    assert keys(choices).isdisjoint({"model.positions", "training.optimizer"})


@pytest.mark.parametrize(
    ("assignment", "key"),
    [
        ("preset=tiny", "preset"),
        ("tokenizer.vocab_size=500", "tokenizer.vocab_size"),
        ("model.dropout.residual=0.05", "model.dropout.residual"),
        ("model.positions.kind=alibi", "model.positions"),
        ("training.optimizer.learning_rate=0.002", "training.optimizer"),
        ("training.batch_tokens=777", "training.batch_tokens"),
        ("training.max_epochs=2", "training.max_epochs"),
        ("training.patience=null", "training.patience"),
        ("training.schedule.warmup=17", "training.schedule.warmup"),
        ("data.valid_size=13", "data.valid_size"),
    ],
)
def test_given_settings_are_not_chosen(tree, assignment, key):
    plain, all_choices = auto_configure(tree, device=CPU)
    experiment, choices = auto_configure(override(tree, [assignment]), device=CPU)
    left_out = {key} | ({"training.patience"} if key == "training.max_epochs" else set())
    rate_alone = {"training.optimizer.kind"} if key == "training.optimizer" else set()
    assert keys(choices) == keys(all_choices) - left_out | rate_alone
    expected = override({"preset": "nano", **plain.model_dump(mode="json")}, [assignment])
    said = assignment.partition("=")[2]
    if key == "preset":
        assert experiment.model.d_model == 128
    else:
        node, there = experiment.model_dump(mode="json"), expected
        for part in assignment.partition("=")[0].split("."):
            node, there = node[part], there[part]
        assert node == there
        assert str(node) == said.replace("null", "None")


def test_dependent_choices_follow_given_settings(tree):
    experiment, _ = auto_configure(override(tree, ["training.max_steps=50"]), device=CPU)
    assert (experiment.training.max_steps, experiment.training.max_epochs) == (50, None)
    assert experiment.training.patience is None
    assert experiment.training.schedule.warmup == 5
    experiment, _ = auto_configure(override(tree, ["training.schedule.kind=cosine"]), device=CPU)
    assert experiment.training.schedule.kind == "cosine"
    assert experiment.training.schedule.warmup < 1000  # less than the default of the schedule
    experiment, choices = auto_configure(override(tree, ["tokenizer.shared=false"]), device=CPU)
    assert experiment.model.tie_embeddings == "target"
    assert "model.tie_embeddings" in keys(choices)
    experiment, choices = auto_configure(override(tree, ["tokenizer.kind=characters"]), device=CPU)
    assert "tokenizer.vocab_size" not in keys(choices)


def test_recurrent_model_gets_output_dropout(tree):
    experiment, choices = auto_configure(override(tree, ["preset=lstm"]), device=CPU)
    assert experiment.model.dropout.output == 0.3
    assert "model.dropout.residual" not in keys(choices)


@pytest.mark.parametrize("kind", ["model.kind=recurrent", "model=recurrent"])
def test_recurrent_model_gets_its_preset(tree, kind):
    experiment, choices = auto_configure(override(tree, [kind, "model.d_model=16"]), device=CPU)
    preset = next(choice for choice in choices if choice.key == "preset")
    assert (preset.value, preset.reason) == ("lstm", "model.kind is recurrent")
    assert (experiment.model.attention.kind, experiment.model.d_model) == ("additive", 16)


def test_given_validation_set_is_not_split(tree, tmp_path):
    source, target = write_corpus(tmp_path, pairs=23, seed=5, name="valid")
    tree["data"]["valid"] = {"kind": "files", "source": str(source), "target": str(target)}
    _, choices = auto_configure(tree, device=CPU)
    assert "data.valid_size" not in keys(choices)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.warmpu=3", "training.warmpu: no such key"),
        ("training=5", "training = 5: is a group of settings. Set one of its keys: training.seed, "),
        ("training.seed=many", "training.seed = 'many'"),
        ("model.num_heads=5", "model.num_heads = 5 does not divide model.d_model = 96"),
        ("preset=tinny", "Did you mean tiny?"),
        ("preset=gpt-nano", "preset: gpt-nano is for task language_modeling or classification"),
        ("task=tagging", "task = tagging: --source is for translation"),
        ("training.schedule=cosin", "training.schedule.kind = 'cosin': no such kind. Did you mean cosine?"),
        ("preset=null", None),
    ],
)
def test_errors_are_raised_before_the_corpus_is_read(tree, assignment, message, monkeypatch):
    def reading(*_, **__):
        raise DataError("the corpus is read")

    monkeypatch.setattr(auto_config, "prepare_data", reading)
    reports: list[str] = []
    with pytest.raises(ConfigError if message else DataError, match=message):
        auto_configure(override(tree, [assignment]), device=CPU, report=reports.append)
    assert reports == []


@pytest.mark.parametrize(
    ("pairs", "device", "preset"),
    [
        (1_999, "cpu", "nano"),
        (2_000, "cpu", "tiny"),
        (200_000, "cpu", "small"),
        (5_000_000, "cpu", "small"),
        (200_000, "cuda", "small"),
        (5_000_000, "cuda", "base"),
    ],
)
def test_preset_grows_with_the_corpus(pairs, device, preset):
    size = CorpusSize(pairs, tokens=pairs * 20)
    asked = parse_experiment({"data": {"train": {"kind": "tsv", "path": "x"}}})
    choices = {choice.key: choice.value for choice in translation_choices({}, asked, size, torch.device(device))}
    assert choices["preset"] == preset
    assert choices["training.batch_tokens"] == (4096 if device == "cpu" else 16_384)
    assert 3 <= choices["training.max_epochs"] <= 60
    assert 1000 <= choices["tokenizer.vocab_size"] <= 32_000
