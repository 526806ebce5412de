"""Argos packages: read and written; nothing leaves a hostile archive."""

import json
import stat
import zipfile

import pytest

import dragoman
from dragoman.checksums import to_checked_json
from dragoman.data.tokenizers import BpeConfig
from dragoman.errors import ConfigError, DragomanError, RunError
from dragoman.interop.ctranslate2 import argos_package
from dragoman.interop.imported_model import ImportOptions
from tests.untrained_runs import finished_run

SCORE = {"metric": "BLEU", "value": 31.254, "signature": "s", "higher_is_better": True}
MODEL = {"noun": "n", "description": "d", "unit": "u", "loss_unit": "l", "parts": {}, "flops": {}, "cache_bytes": 1}
SCORES = {"weights": "best", "seconds": 1.0, "steps": 3, "tokens": 9, "scores": {"test": [SCORE]}, "model": MODEL}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Package of an untrained translator."""
    folder = tmp_path_factory.mktemp("argos")
    run = finished_run(folder / "run", vocabulary=BpeConfig(vocab_size=300))
    run.scores.write_text(to_checked_json(SCORES), encoding="utf-8")
    dragoman.export(run.path, folder / "out", format="argos", languages=("en", "de"))
    (path,) = (folder / "out").iterdir()
    return path


def rewrite(package, path, change=None, extra=()):
    """Write another package: `change` edits the members by name, `extra` adds (member, content)."""
    with zipfile.ZipFile(package) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if change is not None:
        change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        for member, content in extra:
            archive.writestr(member, content)
    return path


def test_package_is_named_by_its_languages(package):
    assert package.name == "translate-en_de-1_0.argosmodel"
    with zipfile.ZipFile(package) as archive:
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
    assert (metadata["from_code"], metadata["to_code"]) == ("en", "de")
    assert metadata["scores"] == {"bleu": 31.25}


@pytest.mark.filterwarnings("ignore:.*cut off at their length limit")
def test_package_translates_like_the_run(package, tmp_path):
    run = package.parents[1] / "run"
    imported = dragoman.import_model(package, tmp_path / "run").load()
    texts, options = (
        ["two dogs play", "a dog"],
        {"beam_size": 3, "max_length": 9, "length_penalty": 1.0, "min_length": 0},
    )
    expected = dragoman.load(run, device="cpu").translate(texts, **options)
    found = imported.translate(texts, **options, source_language="en", target_language="de")
    assert [one[0].text for one in found] == [one[0].text for one in expected]
    assert [one[0].score for one in found] == pytest.approx([one[0].score for one in expected], abs=1e-5)


def test_no_temporary_files_remain(package, tmp_path, monkeypatch):
    monkeypatch.setattr(argos_package, "mkdtemp", lambda **_: str(_made(tmp_path / "work")))
    model = argos_package.read(package, ImportOptions())
    del model
    assert not (tmp_path / "work").exists()


def _made(path):
    path.mkdir()
    return path


def test_unknown_languages_are_refused(package, tmp_path):
    run = package.parents[1] / "run"
    with pytest.raises(ConfigError, match="Give --source-language"):
        dragoman.export(run, tmp_path / "out", format="argos")
    with pytest.raises(ConfigError, match=r"'\.\./x' is no language code"):
        dragoman.export(run, tmp_path / "out", format="argos", languages=("../x", "de"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "..\\evil", "C:/evil", "\\evil"])
def test_paths_out_of_the_archive_are_refused(name, package, tmp_path):
    path = rewrite(package, tmp_path / "x.argosmodel", extra=[(name, b"x")])
    with pytest.raises(RunError, match="leads out of the package"):
        argos_package.read(path, ImportOptions())


def test_symbolic_links_are_refused(package, tmp_path):
    link = zipfile.ZipInfo("translate-en_de-1_0/model/target_vocabulary.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = rewrite(package, tmp_path / "x.argosmodel", extra=[(link, b"/etc/passwd")])
    with pytest.raises(RunError, match="is a symbolic link"):
        argos_package.read(path, ImportOptions())


def test_bombs_are_refused(tmp_path):
    path = tmp_path / "x.argosmodel"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/metadata.json", b"0" * 200_000_000)
    with pytest.raises(RunError, match="claims 1 files of 200,000,000 bytes"):
        argos_package.read(path, ImportOptions())


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"no archive", b"PK\x03\x04" + b"\0" * 100])
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "x.argosmodel").write_bytes(content)
    with pytest.raises(RunError, match=r"x\.argosmodel"):
        argos_package.read(tmp_path / "x.argosmodel", ImportOptions())


def test_packages_without_sentencepiece_are_refused(package, tmp_path):
    def change(members):
        del members["translate-en_de-1_0/sentencepiece.model"]

    path = rewrite(package, tmp_path / "x.argosmodel", change)
    with pytest.raises(DragomanError, match=r"has no sentencepiece\.model"):
        argos_package.read(path, ImportOptions())
