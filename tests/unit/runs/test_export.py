"""Exported models: what the folder holds, what it leaves out, what is refused, and that it is used as a run is."""

import json
import warnings

import numpy as np
import pytest
import torch
import yaml

import dragoman
from dragoman.config import merge
from dragoman.decoding import DecodingConfig
from dragoman.errors import ConfigError, RunError
from dragoman.inference import TranslationWarning
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.quantization import dequantize_weights, load_arrays
from dragoman.runs.export import export_run
from dragoman.runs.load import MODEL_KEYS, ComputeTypeWarning
from tests.untrained_runs import finished_run

TEXTS = ["two dogs play .", "", "a cat sits by the sea"]


@pytest.fixture
def without_core(monkeypatch):
    monkeypatch.setattr("dragoman.cpu_library.is_installed", lambda: False)


@pytest.fixture
def stub(monkeypatch):
    """A core that copies its source, in place of the compiled one."""
    monkeypatch.setattr("dragoman.cpu_library.MODULE", "tests.stubs.dragoman_cpu")


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run")


def translations(path, **options) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)  # a random network may ramble
        return dragoman.load(path, device="cpu", **options).translate(TEXTS, beam=2)


def test_a_folder_in_full_precision_translates_as_the_run(run, tmp_path, without_core):
    export_run(run.path, tmp_path / "model", compute_type="float32")
    assert translations(tmp_path / "model") == translations(run.path)


@pytest.mark.parametrize("computed", ["core", "PyTorch"])
def test_what_is_loaded_searches_as_the_configuration_has_it(tmp_path, computed, request):
    request.getfixturevalue("stub" if computed == "core" else "without_core")
    run = finished_run(tmp_path / "run", {"decoding": {"beam_size": 3, "length_penalty": 1.4}})
    export_run(run.path, tmp_path / "model", compute_type="float32")
    for path in (run.path, tmp_path / "model"):
        assert dragoman.load(path, device="cpu").settings == DecodingConfig(beam_size=3, length_penalty=1.4)


def test_a_search_that_makes_no_sense_is_told_with_its_file(run, stub):
    text = run.config.read_text(encoding="utf-8")
    run.config.write_text(text.replace("beam: 5", "beam: 0"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.yaml: decoding: beam = 0"):
        dragoman.load(run.path, device="cpu")


@pytest.mark.parametrize("compute", ["bfloat16", "int8"])
def test_the_folder_holds_the_rounded_weights_and_pytorch_takes_them(run, tmp_path, without_core, compute):
    sizes = export_run(run.path, tmp_path / "model", compute_type=compute)
    assert sizes.after < sizes.before
    whole, less = (load_arrays(path / "model.safetensors") for path in (run.path, tmp_path / "model"))
    back = dequantize_weights(less)
    assert back.keys() == whole.keys()
    assert max(float(np.abs(back[name] - whole[name]).max()) for name in whole) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ComputeTypeWarning)
        assert len(translations(tmp_path / "model")) == 3
    assert json.loads((tmp_path / "model" / "export.json").read_text())["compute"] == compute


def test_pytorch_says_that_it_does_not_compute_in_int8(run, tmp_path, without_core):
    export_run(run.path, tmp_path / "model", compute_type="int8")
    with pytest.warns(ComputeTypeWarning, match=r"holds int8 weights.*float32.*pip install dragoman-cpu"):
        dragoman.load(tmp_path / "model", device="cpu")


def test_nothing_of_the_machine_it_was_trained_on_is_handed_on(run, tmp_path):
    export_run(run.path, tmp_path / "model", compute_type="int8")
    files = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert files == ["README.md", "config.yaml", "export.json", "model.safetensors", "tokenizer.json"]
    for name in ("README.md", "config.yaml", "export.json"):
        assert "somebody" not in (tmp_path / "model" / name).read_text(encoding="utf-8")
    assert "source: train.en" in (tmp_path / "model" / "config.yaml").read_text(encoding="utf-8")


def test_nor_are_the_runs_it_began_with_or_learnt_from(tmp_path):
    prepared = {"train": {"kind": "prepared", "folder": "/home/somebody/prepared"}}
    taught = {"kind": "distillation", "teacher": "/home/somebody/one", "extra_teachers": ["/home/somebody/two"]}
    changed = {"init_from": "/home/somebody/begun", "training": {"loss": taught}, "data": prepared}
    run = finished_run(tmp_path / "run", changed)
    export_run(run.path, tmp_path / "model", compute_type="float32")
    written = (tmp_path / "model" / "config.yaml").read_text(encoding="utf-8")
    assert "somebody" not in written
    for line in ("init_from: begun", "teacher: one", "- two", "folder: prepared"):
        assert line in written
    assert translations(tmp_path / "model") == translations(run.path)


@pytest.mark.parametrize(
    ("damage", "told"),
    [({"model": {"positions": "sinusoidal"}}, "model.positions"), ({"decoding": 5}, "decoding")],
    ids=["read by the core", "read by the search"],
)
def test_a_configuration_that_is_damaged_is_told_with_its_file(run, stub, damage, told):
    tree = yaml.safe_load(run.config.read_text(encoding="utf-8"))
    run.config.write_text(yaml.safe_dump(merge(tree, damage)), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"config.yaml: {told}"):
        dragoman.load(run.path, device="cpu")


def test_an_export_of_no_known_precision_is_told_with_its_file(run, tmp_path, stub):
    export_run(run.path, tmp_path / "model", compute_type="float32")
    (tmp_path / "model" / "export.json").write_text('{"compute": null}', encoding="utf-8")
    with pytest.raises(RunError, match=r"export\.json: compute = None: no such precision"):
        dragoman.load(tmp_path / "model", device="cpu")


def test_what_cannot_be_exported_is_refused_and_nothing_is_left(run, tmp_path):
    export_run(run.path, tmp_path / "model", compute_type="int8")
    with pytest.raises(RunError, match="never overwritten"):
        export_run(run.path, tmp_path / "model", compute_type="float32")
    with pytest.raises(RunError, match="exported model already"):
        export_run(tmp_path / "model", tmp_path / "other", compute_type="float32")
    with pytest.raises(RunError, match="no run folder"):
        export_run(tmp_path, tmp_path / "other", compute_type="float32")
    run.weights.unlink()
    with pytest.raises(RunError, match="--resume"):
        export_run(run.path, tmp_path / "other", compute_type="float32")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "run"]


def test_a_network_that_is_computed_in_float32_is_stored_so(tmp_path, stub):
    run = finished_run(tmp_path / "run", {"model": {"norm": "rms"}})
    with pytest.raises(ConfigError, match="does not support this norm; int8 would only lose precision"):
        export_run(run.path, tmp_path / "model", compute_type="int8")
    export_run(run.path, tmp_path / "model", compute_type="float32")


def test_where_the_core_is_not_there_to_be_asked_any_transformer_may_be_stored_in_less(tmp_path, without_core):
    run = finished_run(tmp_path / "run", {"model": {"norm": "rms"}})
    export_run(run.path, tmp_path / "model", compute_type="int8")
    with pytest.warns(ComputeTypeWarning, match="holds int8 weights"):
        dragoman.load(tmp_path / "model", device="cpu")


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A core whose binary is none for this system."""
    package = tmp_path / "packages" / "broken_core"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('_core.so: wrong\\n ELF class')", encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr("dragoman.cpu_library.MODULE", "broken_core")


def test_a_core_that_cannot_be_loaded_is_left_aside_with_one_line(run, tmp_path, broken):
    with pytest.warns(
        ComputeTypeWarning, match=r"computed by PyTorch: .*cannot be loaded \(_core\.so: wrong ELF class\)"
    ) as told:
        loaded = dragoman.load(run.path, device="cpu")
    assert len(told) == 1
    assert isinstance(loaded.model, torch.nn.Module)
    with pytest.raises(ConfigError, match=r"compute = int8: .*cannot be loaded.*pip install dragoman-cpu"):
        dragoman.load(run.path, device="cpu", compute_type="int8")
    export_run(run.path, tmp_path / "model", compute_type="int8")


def test_the_core_is_taken_where_it_is_there_and_in_the_precision_of_the_weights(run, tmp_path, stub):
    loaded = dragoman.load(run.path, device="cpu")
    assert isinstance(loaded.model, CpuBackend)
    assert loaded.translate(TEXTS) == TEXTS  # they are copied
    for compute in ("bfloat16", "int8"):
        assert isinstance(dragoman.load(run.path, device="cpu", compute_type=compute).model, CpuBackend)
        export_run(run.path, tmp_path / compute, compute_type=compute)
        assert dragoman.load(tmp_path / compute, device="cpu").translate(TEXTS, beam=3) == TEXTS
        assert isinstance(dragoman.load(tmp_path / compute, device="cpu", compute_type="float32").model, CpuBackend)


def test_the_score_that_the_core_gives_is_that_of_its_translation(run, stub):
    translator = dragoman.load(run.path, device="cpu")
    found = [best[0].hypothesis for best in translator.translate_n_best([TEXTS[0], TEXTS[2]])]
    scored = translator.score([TEXTS[0], TEXTS[2]], [TEXTS[0], TEXTS[2]])
    for one, again in zip(found, scored, strict=True):
        assert again.tokens == one.tokens
        assert again.score == pytest.approx(one.score, abs=1e-5)
        assert again.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-5)


def test_where_the_core_is_there_and_not_taken_one_line_says_why(tmp_path, stub):
    run = finished_run(tmp_path / "run", {"model": {"norm": "rms"}})
    with pytest.warns(
        ComputeTypeWarning, match="computed by PyTorch: the CPU library does not support this norm"
    ) as told:
        loaded = dragoman.load(run.path, device="cpu")
    assert len(told) == 1
    assert not isinstance(loaded.model, CpuBackend)


def test_a_precision_that_cannot_be_computed_in_is_refused(run, tmp_path, without_core):
    for compute in ("bfloat16", "int8"):
        with pytest.raises(ConfigError, match=rf"compute = {compute}: .*pip install dragoman-cpu.*leave compute out"):
            dragoman.load(run.path, device="cpu", compute_type=compute)
    with pytest.raises(ConfigError, match="compute = int4: no such precision; choose one of auto"):
        dragoman.load(run.path, device="cpu", compute_type="int4")


def test_a_configuration_of_an_older_version_is_filled_in(run, stub):
    lines = run.config.read_text(encoding="utf-8").splitlines(keepends=True)
    run.config.write_text("".join(line for line in lines if "norm_embedding" not in line), encoding="utf-8")
    assert dragoman.load(run.path, device="cpu").translate(TEXTS) == TEXTS


def test_weights_of_another_configuration_are_named(run, stub):
    text = run.config.read_text(encoding="utf-8")
    run.config.write_text(text.replace("  size: 12\n", "  size: 14\n"), encoding="utf-8")
    message = r"model\.safetensors: the weights belong to another configuration \(weights: decoder_norm\.weight"
    with pytest.raises(RunError, match=message):
        dragoman.load(run.path, device="cpu")


def test_the_keys_of_a_whole_configuration_are_those_of_its_type():
    assert set(EncoderDecoderConfig.model_fields) == MODEL_KEYS
