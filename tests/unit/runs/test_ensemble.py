"""Runs that are asked together, and those that cannot be."""

import pytest

import dragoman
from dragoman.errors import ConfigError, RunError
from dragoman.inference import Translator
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.runs.export import export_run
from dragoman.runs.load import ComputeTypeWarning
from tests.untrained_runs import finished_language_model, finished_run


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run", {"decoding": {"beam_size": 3}})


def test_the_search_is_the_first_one_s(run, tmp_path):
    other = finished_run(tmp_path / "other", {"model": {"decoder_layers": 2}, "decoding": {"beam_size": 2}})
    together = dragoman.load(run.path, ensemble=[other.path], device="cpu")
    assert isinstance(together, Translator)
    assert together.settings.beam_size == 3
    assert len(together.score(["two dogs play ."], ["zwei Hunde spielen ."])) == 1


def test_one_alone_is_to_be_put_into_a_list(run):
    with pytest.raises(TypeError, match="put it into a list"):
        dragoman.load(run.path, ensemble=str(run.path))


@pytest.mark.filterwarnings("ignore:.*is computed by PyTorch")
def test_weights_in_int8_that_the_core_does_not_compute_together_are_told(run, tmp_path):
    pytest.importorskip("dragoman_cpu", reason="the compiled core is not installed (pip install dragoman-cpu)")
    export_run(run.path, tmp_path / "small", compute_type="int8")
    additive = {"attention": {"cross": {"score": {"kind": "additive"}}}}
    other = finished_run(tmp_path / "other", {"model": additive})
    with pytest.warns(ComputeTypeWarning, match="small holds int8 weights.*in float32, as with others") as told:
        dragoman.load(tmp_path / "small", ensemble=[other.path], device="cpu")
    assert {one.filename for one in told} == {__file__}


def test_others_than_finished_translators_are_refused(run, tmp_path):
    writer, unfinished = finished_language_model(tmp_path / "writer"), finished_run(tmp_path / "unfinished")
    unfinished.weights.unlink()
    for beside, message in ((writer, "writer: is no translator"), (unfinished, "its training has not ended")):
        with pytest.raises(RunError, match=message):
            dragoman.load(run.path, ensemble=[beside.path], device="cpu")


def test_structural_positions_are_refused(run, tmp_path, monkeypatch):
    in_pytorch = finished_run(tmp_path / "other", {"model": {"positions": {"kind": "shaw"}}})
    monkeypatch.setattr(TorchBackend, "needs_source_features", True)
    with pytest.raises(ConfigError, match="other: has tree positions"):
        dragoman.load(in_pytorch.path, ensemble=[run.path], device="cpu")
