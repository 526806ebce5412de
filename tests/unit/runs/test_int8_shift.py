"""Compute type `int8_shift`: refused where the weights do not come from an 8-bit file of Firefox."""

import pytest

import dragoman
from dragoman.errors import ConfigError
from tests.untrained_runs import finished_run


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"decoder_layer": "ssru", "norm_position": "post", "tie_embeddings": "all", "activation": "relu"},
    ],
)
def test_runs_trained_here_are_refused(tmp_path, model):
    folder = finished_run(tmp_path / "run", {"model": model, "tokenizer": {"shared": True}} if model else None)
    with pytest.raises(ConfigError, match=r"compute_type = int8_shift: .*Leave it out"):
        dragoman.load(folder.path, dragoman.Translator, device="cpu", compute_type="int8_shift")


def test_ensembles_are_refused(tmp_path):
    folder = finished_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="int8_shift: is not for ensembles"):
        dragoman.load(folder.path, device="cpu", compute_type="int8_shift", ensemble=[folder.path])
