"""Exported models: files, errors, and loading them like a run."""

import json
import warnings

import numpy as np
import pytest
import torch
import yaml

import dragoman
from dragoman.checksums import seal
from dragoman.cli import main
from dragoman.config_trees import merge
from dragoman.decoding import DecodingConfig
from dragoman.errors import ConfigError, RunError
from dragoman.inference import TranslationWarning
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from dragoman.models.weight_quantization import dequantize_weights, load_arrays
from dragoman.runs.export import export
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import LATER_KEYS, MODEL_KEYS, ComputeTypeWarning
from dragoman.runs.model_card import usage_section
from dragoman.tasks.factory import build_task
from tests.untrained_runs import finished_run

TEXTS = ["two dogs play .", "", "a cat sits by the sea"]

SCORE = {"metric": "BLEU", "value": 9.0, "signature": "nrefs:1", "detail": "", "higher_is_better": True}


@pytest.fixture
def no_cpu_library(monkeypatch):
    monkeypatch.setattr("dragoman.cpu_library.is_installed", lambda: False)


@pytest.fixture
def stub(monkeypatch):
    """Stub of the CPU library that copies its source."""
    monkeypatch.setattr("dragoman.cpu_library.MODULE", "tests.stubs.dragoman_cpu")


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run")


def texts(translator, **options) -> list[str]:
    return [result.text for result in translator.translate(TEXTS, **options)]


def translations(path, **options) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)  # the model is untrained
        results = dragoman.load(path, device="cpu", **options).translate(TEXTS, beam_size=2)
        return [result.text for result in results]


def test_float32_export_equals_the_run(run, tmp_path, no_cpu_library):
    export(run.path, tmp_path / "model", compute_type="float32")
    assert translations(tmp_path / "model") == translations(run.path)


@pytest.mark.parametrize("computed", ["cpu_library", "torch"])
def test_loaded_model_has_the_configured_decoding(tmp_path, computed, request):
    request.getfixturevalue("stub" if computed == "cpu_library" else "no_cpu_library")
    run = finished_run(tmp_path / "run", {"decoding": {"beam_size": 3, "length_penalty": 1.4}})
    export(run.path, tmp_path / "model", compute_type="float32")
    for path in (run.path, tmp_path / "model"):
        assert dragoman.load(path, device="cpu").config == DecodingConfig(beam_size=3, length_penalty=1.4)


def test_invalid_decoding_config_names_its_file(run, stub):
    text = run.config.read_text(encoding="utf-8")
    run.config.write_text(text.replace("beam_size: 5", "beam_size: 0"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.yaml: decoding\.beam_size = 0"):
        dragoman.load(run.path, device="cpu")


@pytest.mark.parametrize("compute", ["bfloat16", "int8", "int8_int16"])
def test_rounded_weights_are_loaded_by_pytorch(run, tmp_path, no_cpu_library, compute):
    sizes = export(run.path, tmp_path / "model", compute_type=compute)
    assert sizes.after < sizes.before
    whole, less = (load_arrays(path / "model.safetensors") for path in (run.path, tmp_path / "model"))
    back = dequantize_weights(less)
    assert back.keys() == whole.keys()
    assert max(float(np.abs(back[name] - whole[name]).max()) for name in whole) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ComputeTypeWarning)
        assert len(translations(tmp_path / "model")) == 3
    assert json.loads((tmp_path / "model" / "export.json").read_text())["compute_type"] == compute


def test_int8_export_on_pytorch_gives_a_warning(run, tmp_path, no_cpu_library):
    export(run.path, tmp_path / "model", compute_type="int8")
    with pytest.warns(ComputeTypeWarning, match=r"has int8 weights.*float32.*pip install dragoman-cpu"):
        dragoman.load(tmp_path / "model", device="cpu")


def test_rounded_export_says_whose_scores_it_has(run, tmp_path, capsys):
    scores = {"steps": 1, "tokens": 2, "seconds": 3.0, "weights": "last", "scores": {"valid": [SCORE]}}
    run.scores.write_text(json.dumps(scores), encoding="utf-8")
    run.model_card.write_text("# run\n\n## Scores\n\n| set |\n", encoding="utf-8")
    exact, rounded = tmp_path / "exact", tmp_path / "rounded"
    export(run.path, exact, compute_type="float32")
    assert main.run(["export", str(run.path), "--out", str(rounded), "--compute-type", "int8"], debug=True) == 0
    command = f"dragoman evaluate {rounded} --source FILE --reference FILE"
    assert f"Score the int8 weights with: {command}" in capsys.readouterr().out
    card = (rounded / "README.md").read_text(encoding="utf-8")
    note = (
        "## Scores\n\n**These are the scores of the float32 weights of the run, not of the int8 weights in this folder."
    )
    assert note in card
    assert "dragoman evaluate rounded --source FILE --reference FILE" in card
    assert "float32 weights of the run" not in (exact / "README.md").read_text(encoding="utf-8")
    for folder, words in ((rounded, "scores of the float32 weights, not of the int8 weights"), (exact, "")):
        assert main.run(["info", str(folder)], debug=True) == 0
        out = capsys.readouterr().out
        assert words in out
        assert ("note: " in out) == bool(words)
        assert "decoding: beam_size 5, length_penalty 1.0, length_penalty_kind average" in out
    assert main.run(["compare", str(exact), str(rounded)], debug=True) == 0
    assert f"note: {rounded}: the scores are those of the float32 weights" in capsys.readouterr().err


def test_card_of_an_export_names_the_folder_of_the_export(run, tmp_path):
    usage = usage_section(build_task(run.read_config()).description, run.path.name)
    run.model_card.write_text(f"# {run.path.name}\n\n{usage}\n", encoding="utf-8")
    export(run.path, tmp_path / "small", compute_type="float32")
    card = (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# small\n")
    assert "dragoman translate small --input FILE" in card
    assert 'dragoman.load("small"' in card


def test_export_contains_no_paths(run, tmp_path):
    export(run.path, tmp_path / "model", compute_type="int8")
    files = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert files == ["README.md", "config.yaml", "export.json", "model.safetensors", "tokenizer.json"]
    for name in ("README.md", "config.yaml", "export.json"):
        assert "somebody" not in (tmp_path / "model" / name).read_text(encoding="utf-8")
    assert "source: train.en" in (tmp_path / "model" / "config.yaml").read_text(encoding="utf-8")


def test_export_contains_no_paths_of_other_runs(tmp_path):
    prepared = {"train": {"kind": "prepared", "folder": "/home/somebody/prepared"}}
    taught = {"kind": "distillation", "teacher": "/home/somebody/one", "extra_teachers": ["/home/somebody/two"]}
    changed = {"init_from": "/home/somebody/begun", "training": {"loss": taught}, "data": prepared}
    run = finished_run(tmp_path / "run", changed)
    export(run.path, tmp_path / "model", compute_type="float32")
    written = (tmp_path / "model" / "config.yaml").read_text(encoding="utf-8")
    assert "somebody" not in written
    for line in ("init_from: begun", "teacher: one", "- two", "folder: prepared"):
        assert line in written
    assert translations(tmp_path / "model") == translations(run.path)


@pytest.mark.parametrize(
    ("damage", "told"),
    [({"model": {"positions": "sinusodal"}}, "model.positions"), ({"decoding": 5}, "decoding")],
    ids=["model", "decoding"],
)
def test_damaged_config_names_its_file(run, stub, damage, told):
    tree = yaml.safe_load(run.config.read_text(encoding="utf-8"))
    run.config.write_text(yaml.safe_dump(merge(tree, damage)), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"config.yaml: {told}"):
        dragoman.load(run.path, device="cpu")


@pytest.mark.parametrize("computed", ["stub", "no_cpu_library"])
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("decoding:\n", "decoding:\n  beem_size: 3\n", r"decoding\.beem_size: no such key\. Did you mean"),
        ("training:\n", "training:\n  batch_tokkens: 3\n", r"training\.batch_tokkens: no such key\. Did you mean"),
        ("task: translation\n", "task: translation\nbeam: 3\n", "beam: no such key"),
        ("batch_tokens:", "batch_tokens: many #", r"training\.batch_tokens = 'many'"),
        ("format_version: 1\n", "format_version: 2\n", "has format_version 2"),
    ],
)
def test_edited_config_is_validated(run, computed, before, after, told, request):
    request.getfixturevalue(computed)
    text = run.config.read_text(encoding="utf-8")
    assert before in text
    run.config.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"config\.yaml: {told}"):
        dragoman.load(run.path, device="cpu")


@pytest.mark.parametrize("computed", ["stub", "no_cpu_library"])
def test_altered_weight_is_refused(run, computed, request):
    request.getfixturevalue(computed)
    content = bytearray(run.weights.read_bytes())
    content[-5] ^= 1
    run.weights.write_bytes(content)
    with pytest.raises(RunError, match=r"model\.safetensors: damaged .*checksum.*restore it from a copy"):
        dragoman.load(run.path, device="cpu")


def test_written_config_is_read_without_validation(run, tmp_path, stub, monkeypatch):
    """Validation imports PyTorch, which takes longer than a short translation."""
    export(run.path, tmp_path / "model", compute_type="float32")
    monkeypatch.setattr(type(run), "read_config", lambda folder: pytest.fail("the configuration was validated"))
    for path in (run.path, tmp_path / "model"):
        assert texts(dragoman.load(path, device="cpu")) == TEXTS


def test_unknown_stored_compute_type_names_its_file(run, tmp_path, stub):
    export(run.path, tmp_path / "model", compute_type="float32")
    (tmp_path / "model" / "export.json").write_text('{"compute_type": null}', encoding="utf-8")
    with pytest.raises(RunError, match=r"export\.json: compute_type = None does not exist"):
        dragoman.load(tmp_path / "model", device="cpu")


def test_refused_export_leaves_no_files(run, tmp_path):
    export(run.path, tmp_path / "model", compute_type="int8")
    with pytest.raises(RunError, match="never overwritten"):
        export(run.path, tmp_path / "model", compute_type="float32")
    with pytest.raises(RunError, match="is an exported model"):
        export(tmp_path / "model", tmp_path / "other", compute_type="float32")
    with pytest.raises(RunError, match="is not a run folder"):
        export(tmp_path, tmp_path / "other", compute_type="float32")
    run.weights.unlink()
    with pytest.raises(RunError, match="--resume"):
        export(run.path, tmp_path / "other", compute_type="float32")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "run"]


def test_unsupported_model_is_exported_as_float32(tmp_path, stub):
    run = finished_run(tmp_path / "run", {"model": {"norm": "rms"}})
    with pytest.raises(ConfigError, match=r"does not support this norm\. int8 would only lose precision"):
        export(run.path, tmp_path / "model", compute_type="int8")
    export(run.path, tmp_path / "model", compute_type="float32")


def test_any_transformer_is_exported_without_the_cpu_library(tmp_path, no_cpu_library):
    run = finished_run(tmp_path / "run", {"model": {"norm": "rms"}})
    export(run.path, tmp_path / "model", compute_type="int8")
    with pytest.warns(ComputeTypeWarning, match="has int8 weights"):
        dragoman.load(tmp_path / "model", device="cpu")


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """CPU library with a binary for another system."""
    package = tmp_path / "packages" / "broken_core"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('_core.so: wrong\\n ELF class')", encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr("dragoman.cpu_library.MODULE", "broken_core")


def test_broken_cpu_library_gives_one_warning(run, tmp_path, broken):
    with pytest.warns(
        ComputeTypeWarning, match=r"PyTorch runs .*cannot be loaded \(_core\.so: wrong ELF class\)"
    ) as told:
        loaded = dragoman.load(run.path, device="cpu")
    assert len(told) == 1
    assert isinstance(loaded.model, torch.nn.Module)
    with pytest.raises(ConfigError, match=r"compute_type = int8: .*cannot be loaded.*pip install dragoman-cpu"):
        dragoman.load(run.path, device="cpu", compute_type="int8")
    export(run.path, tmp_path / "model", compute_type="int8")


def test_cpu_library_runs_every_compute_type(run, tmp_path, stub):
    loaded = dragoman.load(run.path, device="cpu")
    assert isinstance(loaded.model, CpuBackend)
    assert texts(loaded) == TEXTS
    for compute in ("bfloat16", "int8", "int8_int16"):
        assert isinstance(dragoman.load(run.path, device="cpu", compute_type=compute).model, CpuBackend)
        export(run.path, tmp_path / compute, compute_type=compute)
        assert texts(dragoman.load(tmp_path / compute, device="cpu"), beam_size=3) == TEXTS
        assert isinstance(dragoman.load(tmp_path / compute, device="cpu", compute_type="float32").model, CpuBackend)


def test_score_equals_the_score_of_the_translation(run, stub):
    translator = dragoman.load(run.path, device="cpu")
    found = [best[0].hypothesis for best in translator.translate([TEXTS[0], TEXTS[2]])]
    scored = translator.score([TEXTS[0], TEXTS[2]], [TEXTS[0], TEXTS[2]])
    for one, again in zip(found, scored, strict=True):
        assert again.tokens == one.tokens
        assert again.score == pytest.approx(one.score, abs=1e-5)
        assert again.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-5)


def test_unsupported_model_gives_one_warning(tmp_path, stub):
    run = finished_run(tmp_path / "run", {"model": {"norm": "rms"}})
    with pytest.warns(ComputeTypeWarning, match="the CPU library does not support this norm") as told:
        loaded = dragoman.load(run.path, device="cpu")
    assert len(told) == 1
    assert not isinstance(loaded.model, CpuBackend)


def test_unavailable_compute_type_is_refused(run, tmp_path, no_cpu_library):
    for compute in ("bfloat16", "int8", "int8_int16"):
        with pytest.raises(
            ConfigError, match=rf"compute_type = {compute}: .*pip install dragoman-cpu.*Leave compute_type out"
        ):
            dragoman.load(run.path, device="cpu", compute_type=compute)
    with pytest.raises(ConfigError, match=r"compute_type = 'int4' does not exist\. Choose one of auto"):
        dragoman.load(run.path, device="cpu", compute_type="int4")


def test_missing_defaults_are_filled_in(run, stub):
    lines = run.config.read_text(encoding="utf-8").splitlines(keepends=True)
    run.config.write_text("".join(line for line in lines if "norm_embedding" not in line), encoding="utf-8")
    assert texts(dragoman.load(run.path, device="cpu")) == TEXTS


def test_older_configurations_are_read_without_pytorch(run, stub, monkeypatch):
    lines = run.config.read_text(encoding="utf-8").splitlines(keepends=True)
    lines = [line for line in lines if line.strip().partition(":")[0] not in LATER_KEYS]
    run.config.write_text(seal("".join(lines[:-1])), encoding="utf-8")  # the last line is the checksum
    monkeypatch.setattr(RunFolder, "read_config", lambda self: pytest.fail("the configuration is complete"))
    assert texts(dragoman.load(run.path, device="cpu")) == TEXTS


def test_weights_of_another_configuration_are_refused(run, stub):
    text = run.config.read_text(encoding="utf-8")
    run.config.write_text(text.replace("  d_model: 12\n", "  d_model: 14\n"), encoding="utf-8")
    message = r"model\.safetensors: the weights belong to another configuration \(weights: decoder_norm\.weight"
    with pytest.raises(RunError, match=message):
        dragoman.load(run.path, device="cpu")


def test_model_keys_equal_the_config_fields():
    for kind, config in (("encoder_decoder", EncoderDecoderConfig), ("decoder_only", DecoderOnlyConfig)):
        assert set(config.model_fields) - LATER_KEYS == MODEL_KEYS[kind]
