"""Compute type `int8_shift`: refused where the weights do not come from an 8-bit file of Firefox."""

import pytest

import dragoman
from dragoman.errors import ConfigError
from dragoman.interop.marian.write_model import write
from tests.marian_students import student
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


@pytest.mark.filterwarnings("ignore")
def test_heads_of_eight_features_are_refused_by_name(tmp_path):
    pairs = [(f"Text {number} of words", f"words of {number} Text") for number in range(60)]
    (tmp_path / "files").mkdir()
    write(student({"d_model": 32, "d_ff": 48, "num_heads": 4}, pairs=pairs, compute_type="int8"), tmp_path / "files")
    dragoman.import_model(tmp_path / "files", tmp_path / "run")
    with pytest.raises(ConfigError, match=r"multiple of 16, and model.d_model / model.num_heads is 8. Leave it out"):
        dragoman.load(tmp_path / "run", device="cpu", compute_type="int8_shift")


def test_ensembles_are_refused(tmp_path):
    folder = finished_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="int8_shift: is not for ensembles"):
        dragoman.load(folder.path, device="cpu", compute_type="int8_shift", ensemble=[folder.path])
