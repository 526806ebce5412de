"""Ensembles of runs."""

import pytest

import dragoman
from dragoman.errors import ConfigError, RunError
from dragoman.inference import Translator
from dragoman.inference.backends import torch_backend
from dragoman.runs.export import export
from dragoman.runs.load import ComputeTypeWarning
from tests.untrained_runs import finished_language_model, finished_run


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run", {"decoding": {"beam_size": 3}})


def test_ensemble_has_the_decoding_of_the_first_run(run, tmp_path):
    other = finished_run(tmp_path / "other", {"model": {"decoder_layers": 2}, "decoding": {"beam_size": 2}})
    ensemble = dragoman.load(run.path, ensemble=[other.path], device="cpu")
    assert isinstance(ensemble, Translator)
    assert ensemble.config.beam_size == 3
    assert len(ensemble.score(["two dogs play ."], ["zwei Hunde spielen ."])) == 1


def test_ensemble_must_be_a_list(run):
    with pytest.raises(TypeError, match="Give a list"):
        dragoman.load(run.path, ensemble=str(run.path))


@pytest.mark.filterwarnings("ignore:PyTorch runs")
def test_int8_member_on_pytorch_gives_a_warning(run, tmp_path):
    pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed (pip install dragoman-cpu)")
    export(run.path, tmp_path / "small", compute_type="int8")
    additive = {"attention": {"cross": {"score": {"kind": "additive"}}}}
    other = finished_run(tmp_path / "other", {"model": additive})
    with pytest.warns(ComputeTypeWarning, match="small has int8 weights.*in float32") as told:
        dragoman.load(tmp_path / "small", ensemble=[other.path], device="cpu")
    assert {one.filename for one in told} == {__file__}


def test_only_finished_translators_are_members(run, tmp_path):
    writer, unfinished = finished_language_model(tmp_path / "writer"), finished_run(tmp_path / "unfinished")
    unfinished.weights.unlink()
    for other, message in ((writer, "writer: is not a translator"), (unfinished, "the training has not ended")):
        with pytest.raises(RunError, match=message):
            dragoman.load(run.path, ensemble=[other.path], device="cpu")


def test_tree_positions_are_refused(run, tmp_path, monkeypatch):
    in_pytorch = finished_run(tmp_path / "other", {"model": {"positions": {"kind": "shaw"}}})
    monkeypatch.setattr(torch_backend, "needs_source_features", lambda _: True)
    with pytest.raises(ConfigError, match="other: has tree positions"):
        dragoman.load(in_pytorch.path, ensemble=[run.path], device="cpu")
