"""Models by name: the sizes that were promised."""

import pytest

from dragoman.errors import ConfigError
from dragoman.experiment.config import to_experiment
from dragoman.experiment.presets import PRESETS, preset_tree

DATA = {"train": {"kind": "files", "source": "a", "target": "b"}}
SIZES = {  # layers of encoder and decoder, width, feed-forward width, heads
    "nano": (2, 2, 96, 256, 4),
    "tiny": (4, 4, 128, 256, 4),
    "small": (6, 6, 256, 1024, 4),
    "base": (6, 6, 512, 2048, 8),
    "big": (6, 6, 1024, 4096, 16),
    "deep-shallow": (12, 2, 512, 2048, 8),
}


def test_every_preset_has_the_sizes_of_its_name():
    assert PRESETS.keys() == SIZES.keys()
    for name, sizes in SIZES.items():
        model = to_experiment({"preset": name, "data": DATA}).model
        found = (model.encoder_layers, model.decoder_layers, model.size, model.feed_forward, model.heads)
        assert found == sizes, name


def test_what_is_said_for_itself_lies_over_the_preset():
    experiment = to_experiment({"preset": "tiny", "data": DATA, "model": {"size": 64}})
    assert (experiment.model.size, experiment.model.encoder_layers) == (64, 4)


def test_smaller_models_learn_faster():
    rates = [PRESETS[name]["training"]["optimiser"]["learning_rate"] for name in ("base", "small", "tiny")]
    assert rates == sorted(rates)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tinny", "Did you mean tiny?"), ("deepshallow", "Did you mean deep-shallow?"), (3, "Known: nano, tiny")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, hint):
    with pytest.raises(ConfigError) as raised:
        preset_tree(name)
    assert hint in str(raised.value)
