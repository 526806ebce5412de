"""Models by name: the sizes that were promised, and the tasks that they are for."""

import pytest

from dragoman.errors import ConfigError
from dragoman.runs.config import parse_experiment
from dragoman.runs.presets import PRESETS, preset_tree
from dragoman.tasks.config import TASK_CONFIGS

DATA = {"train": {"kind": "files", "source": "a", "target": "b"}}
SIZES = {  # layers of encoder and decoder, width, feed-forward width, heads
    "nano": (2, 2, 96, 256, 4),
    "tiny": (4, 4, 128, 256, 4),
    "small": (6, 6, 256, 1024, 4),
    "base": (6, 6, 512, 2048, 8),
    "big": (6, 6, 1024, 4096, 16),
    "deep-shallow": (12, 2, 512, 2048, 8),
}
HALVES = {  # kind, layers, width, feed-forward width, heads
    "gpt-nano": ("causal", 4, 128, 512, 4),
    "gpt-tiny": ("causal", 6, 384, 1536, 6),
    "gpt-small": ("causal", 12, 768, 3072, 12),
    "llama-tiny": ("causal", 6, 384, 1024, 6),
    "bert-tiny": ("encoder", 2, 128, 512, 2),
    "bert-mini": ("encoder", 4, 256, 1024, 4),
    "bert-small": ("encoder", 4, 512, 2048, 8),
}


def test_every_preset_has_the_sizes_of_its_name():
    assert PRESETS.keys() == {*SIZES, *HALVES, "lstm"}
    for name, sizes in SIZES.items():
        model = parse_experiment({"preset": name, "data": DATA}).model
        found = (model.encoder_layers, model.decoder_layers, model.d_model, model.d_ff, model.num_heads)
        assert found == sizes, name
    for name, sizes in HALVES.items():
        model = preset_tree(name)["model"]
        found = tuple(model[key] for key in ("kind", "layers", "size", "feed_forward", "heads"))
        assert found == sizes, name


def test_the_recurrent_one_attends():
    model = parse_experiment({"preset": "lstm", "data": DATA}).model
    assert (model.kind, model.cell, model.attention.kind) == ("recurrent", "lstm", "additive")


def test_what_is_said_for_itself_lies_over_the_preset():
    experiment = parse_experiment({"preset": "tiny", "data": DATA, "model": {"d_model": 64}})
    assert (experiment.model.d_model, experiment.model.encoder_layers) == (64, 4)


def test_smaller_models_learn_faster():
    rates = [PRESETS[name].tree["training"]["optimizer"]["learning_rate"] for name in ("base", "small", "tiny")]
    assert rates == sorted(rates)


def test_a_preset_says_what_it_is_for():
    assert preset_tree("tiny") == preset_tree("tiny", task="translation")
    assert "task" not in preset_tree("tiny")
    assert preset_tree("gpt-nano")["task"] == "language_modeling"
    assert preset_tree("gpt-nano", task="classification")["task"] == "classification"
    assert preset_tree("gpt-nano")["data"]["context_length"] == 128
    assert "data" not in preset_tree("gpt-nano", task="classification")
    assert {task for preset in PRESETS.values() for task in preset.tasks} == TASK_CONFIGS.keys()


def test_a_preset_of_another_task_is_refused_with_those_of_this_one():
    with pytest.raises(ConfigError) as raised:
        preset_tree("tiny", task="tagging")
    assert str(raised.value) == (
        "preset: tiny is for task translation, and this is task tagging, for which there are bert-tiny, bert-mini, "
        "bert-small"
    )


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"preset": "tiny", "model": {"kind": "recurrent"}},
            "preset: tiny is a model of kind transformer, and model.kind is recurrent; leave one of them out, or "
            "choose lstm",
        ),
        (
            {"preset": "gpt-nano", "task": "classification", "model": {"kind": "encoder_only"}},
            "preset: gpt-nano is a model of kind causal, and model.kind is encoder; leave one of them out, or choose "
            "bert-tiny or bert-mini or bert-small",
        ),
        (
            {"preset": "tiny", "model": {"kind": "recurent"}},
            "model.kind = 'recurent': no such kind. Did you mean recurrent?",
        ),
    ],
)
def test_a_model_of_another_kind_than_the_preset_is_refused(tree, message):
    with pytest.raises(ConfigError) as raised:
        parse_experiment({**tree, "data": DATA})
    assert message in str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tinny", "Did you mean tiny?"), ("deepshallow", "Did you mean deep-shallow?"), (3, "Known: nano, tiny")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, hint):
    with pytest.raises(ConfigError) as raised:
        preset_tree(name)
    assert hint in str(raised.value)
