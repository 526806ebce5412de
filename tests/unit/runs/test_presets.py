"""Presets: their sizes and their tasks."""

import pytest

from dragoman.errors import ConfigError
from dragoman.models.config import SinusoidalConfig
from dragoman.runs.config import parse_experiment
from dragoman.runs.presets import PRESETS, matching_preset, preset_tree
from dragoman.tasks.config import TASK_CONFIGS

DATA = {"train": {"kind": "files", "source": "a", "target": "b"}}
SIZES = {  # layers of encoder and decoder, width, feed-forward width, heads
    "nano": (2, 2, 96, 256, 4),
    "tiny": (4, 4, 128, 256, 4),
    "small": (6, 6, 256, 1024, 4),
    "base": (6, 6, 512, 2048, 8),
    "big": (6, 6, 1024, 4096, 16),
    "deep-shallow": (12, 2, 512, 2048, 8),
    "student-tiny": (6, 2, 256, 1536, 8),
}
SINGLE_STACKS = {  # kind, layers, width, feed-forward width, heads
    "gpt-nano": ("decoder_only", 4, 128, 512, 4),
    "gpt-tiny": ("decoder_only", 6, 384, 1536, 6),
    "gpt-small": ("decoder_only", 12, 768, 3072, 12),
    "llama-tiny": ("decoder_only", 6, 384, 1024, 6),
    "bert-tiny": ("encoder_only", 2, 128, 512, 2),
    "bert-mini": ("encoder_only", 4, 256, 1024, 4),
    "bert-small": ("encoder_only", 4, 512, 2048, 8),
}


def test_sizes_of_every_preset():
    assert PRESETS.keys() == {*SIZES, *SINGLE_STACKS, "lstm"}
    for name, sizes in SIZES.items():
        model = parse_experiment({"preset": name, "data": DATA}).model
        found = (model.encoder_layers, model.decoder_layers, model.d_model, model.d_ff, model.num_heads)
        assert found == sizes, name
    for name, sizes in SINGLE_STACKS.items():
        model = preset_tree(name)["model"]
        found = tuple(model[key] for key in ("kind", "num_layers", "d_model", "d_ff", "num_heads"))
        assert found == sizes, name


def test_recurrent_preset_has_attention():
    model = parse_experiment({"preset": "lstm", "data": DATA}).model
    assert (model.kind, model.cell, model.attention.kind) == ("recurrent", "lstm", "additive")


def test_student_has_the_layers_of_marian():
    model = parse_experiment({"preset": "student-tiny", "data": DATA}).model
    assert (model.decoder_layer, model.norm_position, model.norm_epsilon) == ("ssru", "post", 1e-6)
    assert model.positions == SinusoidalConfig(order="halves", inclusive=True)
    assert (model.activation, model.tie_embeddings, model.scale_embedding) == ("relu", "all", True)


def test_settings_override_the_preset():
    experiment = parse_experiment({"preset": "tiny", "data": DATA, "model": {"d_model": 64}})
    assert (experiment.model.d_model, experiment.model.encoder_layers) == (64, 4)


def test_smaller_models_have_higher_learning_rates():
    rates = [PRESETS[name].tree["training"]["optimizer"]["learning_rate"] for name in ("base", "small", "tiny")]
    assert rates == sorted(rates)


def test_preset_settings_by_task():
    assert preset_tree("tiny") == preset_tree("tiny", task="translation")
    assert "task" not in preset_tree("tiny")
    assert preset_tree("gpt-nano")["task"] == "language_modeling"
    assert preset_tree("gpt-nano", task="classification")["task"] == "classification"
    assert preset_tree("gpt-nano")["data"]["context_length"] == 128
    assert "data" not in preset_tree("gpt-nano", task="classification")
    assert {task for preset in PRESETS.values() for task in preset.tasks} == TASK_CONFIGS.keys()


def test_preset_of_another_task_is_refused():
    with pytest.raises(ConfigError) as raised:
        preset_tree("tiny", task="tagging")
    assert "tiny is for task translation, and this is task tagging. Choose bert-tiny or" in str(raised.value)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"preset": "tiny", "model": {"kind": "recurrent"}},
            "preset: tiny is a model of kind encoder_decoder, and model.kind is recurrent. Leave one of them out, or "
            "choose lstm.",
        ),
        (
            {"preset": "gpt-nano", "task": "classification", "model": {"kind": "encoder_only"}},
            "preset: gpt-nano is a model of kind decoder_only, and model.kind is encoder_only. Leave one of them out, "
            "or choose bert-tiny or bert-mini or bert-small.",
        ),
        (
            {"preset": "tiny", "model": {"kind": "recurent"}},
            "model.kind = 'recurent': no such kind. Did you mean recurrent? Known: encoder_decoder, recurrent.",
        ),
    ],
)
def test_model_of_another_kind_than_the_preset_is_refused(tree, message):
    with pytest.raises(ConfigError) as raised:
        parse_experiment({**tree, "data": DATA})
    assert message in str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tinny", "Did you mean tiny?"), ("deepshallow", "Did you mean deep-shallow?"), (3, "Known: nano, tiny")],
)
def test_unknown_preset_names_the_nearest(name, hint):
    with pytest.raises(ConfigError) as raised:
        preset_tree(name)
    assert hint in str(raised.value)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_found_by_the_sizes_of_its_model(name):
    model = {**PRESETS[name].tree["model"], "positions": {"kind": "none"}}
    assert matching_preset(model) == name
    assert matching_preset(model | {"d_model": 7}) is None
