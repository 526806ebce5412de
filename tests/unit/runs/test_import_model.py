"""Import of models, with a stand-in for a format."""

import json
from pathlib import Path

import numpy as np
import pytest

import dragoman
from dragoman.cli import main
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.interop import recognize_format
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions, Origin, Reference
from dragoman.interop.recognize_format import Partner
from dragoman.interop.tensor_names import TensorAccount
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.models.weight_quantization import load_arrays
from dragoman.runs.folder import RunFolder
from tests.small_runs import write_corpus
from tests.untrained_runs import PAIRS, finished_language_model, finished_run

pytestmark = pytest.mark.filterwarnings("ignore:.*cut off at")
TEXTS = [source for source, _ in PAIRS]


def imported(run: RunFolder, files: tuple[Path, ...] = (), reference: Reference | None = None) -> ImportedModel:
    """Return the model of a run as one of another program."""
    experiment, tokenizer = run.read_config(), run.read_tokenizer()
    return ImportedModel(
        task=experiment.task,
        network=experiment.model,
        weights=load_arrays(run.weights),
        tokenizer=tokenizer,
        origin=Origin(
            "stand-in",
            "small",
            license="CC0-1.0",
            orders={"target": VocabularyOrder(len(tokenizer.target), 0, 1, 2, 3)},
            files=files,
            documents={"config.json": {"size": 12}},
        ),
        tensors=TensorAccount(("a", "b"), {"c": "computed"}, {"d": 0.0}),
        max_length=23,
        notes=("a remark",),
        reference=reference,
    )


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file in the format of the stand-in, whose partner is installed for the test."""
    run = finished_run(tmp_path / "run")
    language_model = finished_language_model(tmp_path / "language_model")
    file = tmp_path / "model.bin"
    file.write_bytes(b"translator")

    def read(path: Path, options: ImportOptions) -> ImportedModel:
        return imported(language_model if path.read_bytes() == b"language model" else run, (path,))

    def write(model: ExportedModel, folder: Path) -> None:
        facts = {"name": model.name, "origin": model.origin and model.origin.documents, "max": model.max_length}
        (folder / "facts.json").write_text(json.dumps(facts))
        np.savez(folder / "weights.npz", **model.weights)

    partner = Partner("a stand-in", lambda path: path.suffix == ".bin", read, write)
    monkeypatch.setattr(recognize_format, "PARTNERS", {"stand-in": partner, "read-only": Partner("x", bool, read)})
    return file


@pytest.fixture
def model(source: Path, tmp_path: Path) -> Path:
    dragoman.import_model(source, tmp_path / "model", format="stand-in")
    return tmp_path / "model"


def test_imported_translator_gives_the_translations_of_its_original(model: Path, tmp_path: Path) -> None:
    expected = [one.text for one in dragoman.load(tmp_path / "run", dragoman.Translator).translate(TEXTS)]
    assert [one.text for one in dragoman.load(model, dragoman.Translator).translate(TEXTS)] == expected


def test_imported_language_model_continues_texts(source: Path, tmp_path: Path) -> None:
    source.write_bytes(b"language model")
    result = dragoman.import_model(source, tmp_path / "model", format="stand-in")
    expected = dragoman.load(tmp_path / "language_model", dragoman.Generator)
    found = dragoman.load(tmp_path / "model", dragoman.Generator)
    options = {"max_new_tokens": 11, "temperature": 0.0}
    assert found.generate("two", **options).text == expected.generate("two", **options).text
    assert result.sample is not None
    assert result.sample[1] == expected.generate(result.sample[0], max_new_tokens=20, temperature=0).text


def test_origin_and_model_card_are_written(model: Path, source: Path) -> None:
    origin = RunFolder(model).read_origin()
    assert origin["documents"] == {"config.json": {"size": 12}}
    assert origin["files"][0]["file"] == source.name
    assert origin["self_check"]["tensors"] == {"used": 2, "left_over": {"c": "computed"}, "filled": {"d": 0.0}}
    card = RunFolder(model).read_model_card()
    for words in ("imported by dragoman from `model.bin`", "CC0-1.0", "left over: c, computed", "note: a remark"):
        assert words in card


def test_changed_origin_is_refused(model: Path) -> None:
    path = RunFolder(model).origin
    path.write_text(path.read_text().replace("CC0", "MIT"))
    with pytest.raises(RunError, match=r"origin\.json: damaged \(it differs from its checksum"):
        RunFolder(model).read_origin()


def test_command_prints_the_self_check(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["import", str(source), "--format", "stand-in", "--out", str(tmp_path / "model")]
    assert main.run(command, debug=False) == 0
    lines = capsys.readouterr().out
    assert "tensors: 2 used, 1 left over, 0 missing" in lines
    assert "sample: 'This is a test.' gives" in lines
    assert main.run(["info", str(tmp_path / "model")], debug=False) == 0
    assert "imported from stand-in (small); license: CC0-1.0" in capsys.readouterr().out


def test_resuming_an_imported_model_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["train", "--resume", str(model)], debug=False) == 2
    assert "is a model imported from stand-in" in capsys.readouterr().err


def test_training_its_configuration_needs_a_corpus(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["train", str(model / "config.yaml"), "--out", str(tmp_path / "again")], debug=False) == 2
    assert "data.train is null, as in the configuration of an imported model" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


def test_exported_copy_of_an_imported_model_keeps_its_origin(model: Path, tmp_path: Path) -> None:
    dragoman.export(model, tmp_path / "export", compute_type="float32")
    assert RunFolder(tmp_path / "export").read_origin() == RunFolder(model).read_origin()


def test_export_to_a_format_gets_the_origin(model: Path, tmp_path: Path) -> None:
    result = dragoman.export(model, tmp_path / "back", format="stand-in")
    facts = json.loads((tmp_path / "back" / "facts.json").read_text())
    assert facts == {"name": "back", "origin": {"config.json": {"size": 12}}, "max": 23}
    weights = np.load(tmp_path / "back" / "weights.npz")
    original = load_arrays(RunFolder(tmp_path / "run").weights)
    assert all(np.array_equal(weights[name], array) for name, array in original.items())
    assert result.after == sum(file.stat().st_size for file in (tmp_path / "back").iterdir())


def test_formats_that_are_only_read_cannot_be_written(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="format = read-only is only read"):
        dragoman.export(model, tmp_path / "back", format="read-only")
    assert not (tmp_path / "back").exists()


def test_languages_without_effect_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not ask for languages"):
        dragoman.import_model(source, tmp_path / "imported", format="stand-in", source_language="en")
    assert not (tmp_path / "imported").exists()


def test_model_of_several_formats_needs_a_name(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="could be of several formats"):
        dragoman.import_model(source, tmp_path / "model")


def test_other_logits_than_the_reference_are_refused(source: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    size = len(run.read_tokenizer().target)
    reference = Reference("the other", lambda _, target: np.eye(len(target), size, dtype=np.float32))
    partner = Partner("x", bool, lambda path, options: imported(run, (path,), reference))
    recognize_format.PARTNERS["other"] = partner  # type: ignore[index]
    with pytest.raises(DataError, match="does not compute what the original computes"):
        dragoman.import_model(source, tmp_path / "model", format="other")
    assert not (tmp_path / "model").exists()


def test_weights_of_another_shape_are_refused(source: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    model = imported(run)
    model.weights["decoder_norm.weight"] = np.ones(5, dtype=np.float32)  # type: ignore[index]
    recognize_format.PARTNERS["other"] = Partner("x", bool, lambda *_: model)  # type: ignore[index]
    with pytest.raises(RunError, match=r"another shape of decoder_norm\.weight"):
        dragoman.import_model(source, tmp_path / "model", format="other")


def test_imported_model_is_fine_tuned(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    source, target = write_corpus(tmp_path, pairs=40)
    valid_source, valid_target = write_corpus(tmp_path, pairs=9, seed=2, name="valid")
    result = dragoman.train(
        source=source,
        target=target,
        valid_source=valid_source,
        valid_target=valid_target,
        init_from=model,
        output_dir=tmp_path / "tuned",
        max_steps=2,
        device="cpu",
    )
    assert result.steps == 2
    assert RunFolder(tmp_path / "tuned").read_config().model == RunFolder(model).read_config().model
