"""Ensembles by the CPU library equal ensembles by PyTorch, from the same run folders; needs `dragoman-cpu`."""

import asyncio
import random
from pathlib import Path

import pytest

import dragoman
from dragoman.data.shortlist import Shortlist, ShortlistConfig
from dragoman.inference import Translator
from dragoman.inference.backends.cpu_backend import CpuEnsemble
from dragoman.models.ensemble import Ensemble
from dragoman.runs.export import export
from dragoman.runs.load import apply_shortlist, build_ensemble, load_torch_model
from tests.parity.test_cpu_translation import SETTINGS, assert_alike, texts
from tests.untrained_runs import finished_run, write_pairs

pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed")
# What random networks write often reaches its limit, which these tests are not about.
pytestmark = pytest.mark.filterwarnings("ignore::dragoman.inference.translation_result.TranslationWarning")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two runs whose models share only their vocabularies."""
    modern = {"positions": {"kind": "rotary"}, "norm": "rms", "decoder_layers": 2}
    runs = [finished_run(tmp_path / "one").path, finished_run(tmp_path / "other", {"model": modern}).path]
    first = dragoman.load(runs[0], device="cpu").translate(texts(5))
    assert first != dragoman.load(runs[1], device="cpu").translate(texts(5)), "they disagree"
    return runs


def by_pytorch(runs: list[Path]) -> Translator:
    slow = build_ensemble(runs, [load_torch_model(run, device="cpu") for run in runs])
    assert isinstance(slow.model, Ensemble)
    return slow


def on_the_cpu(runs: list[Path], **options: object) -> Translator:
    fast: Translator = dragoman.load(runs[0], ensemble=runs[1:], device="cpu", **options)
    assert isinstance(fast.model, CpuEnsemble)
    return fast


def test_translations_and_scores_equal_pytorch(runs):
    assert_alike(on_the_cpu(runs, batch_tokens=41), by_pytorch(runs))


@pytest.mark.parametrize("compute", ["float32", "int8"])
def test_translations_do_not_depend_on_the_batch(runs, tmp_path, compute):
    for run in runs:
        export(run, tmp_path / compute / run.name, compute_type=compute)
    translator = on_the_cpu([tmp_path / compute / run.name for run in runs], batch_tokens=37)
    lines = [line for line in texts(23) if line]
    together = translator.translate(lines, SETTINGS[1])
    order = random.Random(7).sample(range(len(lines)), len(lines))
    mixed = translator.translate([lines[row] for row in order], SETTINGS[1])
    assert mixed == [together[row] for row in order]  # to the last bit
    assert [translator.translate([line], SETTINGS[1])[0] for line in lines] == together
    assert asyncio.run(translator.translate_async(lines, SETTINGS[1])) == together


def test_members_share_one_shortlist(runs, tmp_path):
    corpus = write_pairs(tmp_path)
    asked = {"shortlist": ShortlistConfig(frequent=1, per_token=2), "source": corpus.source, "target": corpus.target}
    export(runs[0], tmp_path / "model", compute_type="float32", **asked)
    few = [dragoman.load(tmp_path / "model", ensemble=runs[1:], device="cpu", shortlist=True)]
    few.append(apply_shortlist(by_pytorch(runs), Shortlist.load(tmp_path / "model" / "shortlist.safetensors")))
    found = [[one[0] for one in translator.translate(texts(9), SETTINGS[1])] for translator in few]
    assert [one.text for one in found[0]] == [one.text for one in found[1]]
    assert [one.hypothesis.score for one in found[0]] == pytest.approx(
        [one.hypothesis.score for one in found[1]], abs=1e-4
    )
    freely = on_the_cpu(runs).translate(texts(9), SETTINGS[1])
    assert [one.text for one in found[0]] != [one[0].text for one in freely]


def test_pytorch_runs_unsupported_ensembles(runs, tmp_path):
    relative = finished_run(tmp_path / "relative", {"model": {"positions": {"kind": "shaw"}}}).path
    with pytest.warns(UserWarning, match="PyTorch runs .*relative"):
        mixed = dragoman.load(runs[0], ensemble=[relative], device="cpu")
    assert isinstance(mixed.model, Ensemble)
    assert not any(network.training for network in mixed.model.networks)
    assert len(mixed.translate(texts(3))) == 3
