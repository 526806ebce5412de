"""Every reader of another program's files answers any content with a model or with an error of dragoman."""

import json
import shutil
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

import dragoman
from dragoman.checksums import check_json, to_checked_json
from dragoman.errors import DragomanError
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.recognize_format import PARTNERS
from dragoman.runs.export_format import read_origin
from dragoman.runs.folder import RunFolder
from tests import fairseq_models, joeynmt_models
from tests.properties.test_fuzzed_files import EDITS, TREE_EDITS, edit_bytes, edit_tree
from tests.property_settings import FULL

pytestmark = pytest.mark.slow
CASES = 2000 if FULL else 20
"""Changes of each file."""
FUZZING = settings(max_examples=CASES, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))


def write_fairseq(folder: Path) -> None:
    fairseq_models.write_folder(folder, fairseq_models.settings(learned_pos=True))
    merges = ["t w", "tw o</w>", "d o", "g s</w>"]
    (folder / "bpecodes").write_text("#version: 0.2\n" + "".join(f"{one}\n" for one in merges))


def write_joeynmt(folder: Path) -> None:
    joeynmt_models.write_folder(folder, joeynmt_models.settings(norm="pre"))


MODELS: dict[str, Callable[[Path], None]] = {"fairseq": write_fairseq, "joeynmt": write_joeynmt}
FILES = {
    "fairseq": ("checkpoint_best.pt", "dict.en.txt", "dict.de.txt", "bpecodes"),
    "joeynmt": ("best.ckpt", "config.yaml", "src_vocab.txt", "trg_vocab.txt"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, write in MODELS.items():
        write(folder / name)
    return folder


def check(name: str, folder: Path) -> None:
    """Recognize and read a model."""
    PARTNERS[name].recognizes(folder)
    try:
        PARTNERS[name].read(folder, ImportOptions())
    except DragomanError as error:
        assert len(str(error).splitlines()) <= 3, error  # noqa: PT017


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in FILES.items() for file in files])
def test_any_content_is_read_or_refused(name: str, file: str, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(models / name, folder)
    content = (folder / file).read_bytes()
    PARTNERS[name].read(folder, ImportOptions())

    @FUZZING
    @given(edits=EDITS)
    def check_bytes(edits: Any) -> None:
        (folder / file).write_bytes(edit_bytes(content, edits))
        check(name, folder)

    check_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_any_pickle_in_an_archive_is_read_or_refused(name: str, models: Path, tmp_path: Path) -> None:
    """Changes inside of the pickle, with a valid checksum of the archive."""
    folder, file = tmp_path / name, FILES[name][0]
    shutil.copytree(models / name, folder)
    with zipfile.ZipFile(folder / file) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    pickle = next(one for one in members if one.endswith("data.pkl"))

    @FUZZING
    @given(edits=EDITS)
    def check_bytes(edits: Any) -> None:
        with zipfile.ZipFile(folder / file, "w") as archive:
            for one, content in members.items():
                archive.writestr(one, edit_bytes(content, edits) if one == pickle else content)
        check(name, folder)

    check_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_any_settings_are_read_or_refused(name: str, models: Path, tmp_path: Path) -> None:
    """Settings of other values and types."""
    folder = tmp_path / name
    shutil.copytree(models / name, folder)

    @FUZZING
    @given(edits=TREE_EDITS)
    def check_tree(edits: Any) -> None:
        if name == "fairseq":
            tree = edit_tree(fairseq_models.settings(), edits)
            saved = torch.load(models / name / FILES[name][0], weights_only=False)
            torch.save({**saved, "args": None, "cfg": {"model": tree}}, folder / FILES[name][0])
        else:
            tree = edit_tree(joeynmt_models.settings(norm="pre"), edits)
            (folder / "config.yaml").write_text(joeynmt_models.yaml.safe_dump(tree, allow_unicode=False))
        check(name, folder)

    check_tree()


def test_any_origin_is_read_or_refused(models: Path, tmp_path: Path) -> None:
    """Changes of the record of a run, with a valid checksum."""
    run = tmp_path / "run"
    dragoman.import_model(models / "fairseq", run)
    path = RunFolder(run).origin
    tree = check_json(json.loads(path.read_text()))

    @FUZZING
    @given(edits=TREE_EDITS)
    def check_tree(edits: Any) -> None:
        edited = edit_tree(deepcopy(tree), edits)
        try:
            path.write_text(to_checked_json(edited if isinstance(edited, dict) else {"": edited}))
        except UnicodeEncodeError:
            return
        try:
            read_origin(RunFolder(run))
        except DragomanError as error:
            assert len(str(error).splitlines()) <= 3, error  # noqa: PT017

    check_tree()


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "tokenizer_config.json"])
def test_any_classifier_is_read_or_refused(file: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers writes the classifier")
    from tests.huggingface_encoders import write_bert

    write_bert(tmp_path, "BertForSequenceClassification")
    vocabulary = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(vocabulary, key=vocabulary.__getitem__)))
    (tmp_path / "tokenizer.json").unlink()
    tree = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tree))
    content = (tmp_path / file).read_bytes()
    assert PARTNERS["huggingface"].read(tmp_path, ImportOptions()).task == "classification"

    @FUZZING
    @given(edits=TREE_EDITS)
    def check_tree(edits: Any) -> None:
        (tmp_path / file).write_text(json.dumps(edit_tree(json.loads(content), edits)))
        check("huggingface", tmp_path)

    @FUZZING
    @given(edits=EDITS)
    def check_bytes(edits: Any) -> None:
        (tmp_path / file).write_bytes(edit_bytes(content, edits))
        check("huggingface", tmp_path)

    check_bytes()
    if file != "vocab.txt":
        check_tree()
