"""Damaged models of CTranslate2 and Argos packages give a result or an error of dragoman."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.data.tokenizers import BpeConfig
from dragoman.errors import DragomanError
from dragoman.interop.ctranslate2 import argos_package, read_model
from dragoman.interop.ctranslate2.model_file import read_model_file
from dragoman.interop.imported_model import ImportOptions
from tests.ctranslate2_models import write_translator
from tests.properties.test_fuzzed_files import EDITS, TREE_EDITS, edit_bytes, edit_tree
from tests.property_settings import damaged_files
from tests.untrained_runs import finished_run

pytest.importorskip("ctranslate2", reason="writes the files that are damaged")
FUZZING = settings(damaged_files(200), suppress_health_check=list(HealthCheck), phases=(Phase.generate,), deadline=None)
HEADER_EDITS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from([b"\xff\xff\xff\xff", b"\0", b"\x01\0\0\0", b"\xff", b"\x04\x08"])),
    min_size=1,
    max_size=3,
)
"""Places near the beginning, and the numbers that replace those there."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_translator(tmp_path_factory.mktemp("fuzzed") / "model", quantization="int8", table="learned")


@pytest.fixture(scope="module")
def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    work = tmp_path_factory.mktemp("package")
    run = finished_run(work / "run", vocabulary=BpeConfig(vocab_size=300))
    dragoman.export(run.path, work / "out", format="argos", languages=("en", "de"))
    (path,) = (work / "out").iterdir()
    return path.read_bytes()


@FUZZING
@given(edits=EDITS, header_edits=HEADER_EDITS, edits_header=st.booleans())
def test_damaged_model_files(folder, contents, edits, header_edits, edits_header):
    content = contents["model.bin"]
    if edits_header:
        for place, number in header_edits:
            content = content[:place] + number + content[place + len(number) :]
    else:
        content = edit_bytes(content, edits)
    path = folder.parent / "model.bin"
    path.write_bytes(content)
    with suppress(DragomanError):
        found = read_model_file(path)
        assert sum(tensor.nbytes for tensor in found.variables.values()) <= len(content)


@FUZZING
@given(name=st.sampled_from(["model.bin", "config.json", "shared_vocabulary.json"]), edits=EDITS, trees=TREE_EDITS)
def test_damaged_folders(folder, contents, name, edits, trees):
    content = contents[name]
    damaged = edit_bytes(content, edits)
    if name.endswith(".json") and edits[0][1] % 2:
        damaged = json.dumps(edit_tree(json.loads(content), trees)).encode()
    (folder / name).write_bytes(damaged)
    try:
        with suppress(DragomanError):
            read_model.read(folder, ImportOptions())
    finally:
        (folder / name).write_bytes(content)


@FUZZING
@given(edits=EDITS)
def test_damaged_packages(folder, contents, package, edits):
    path = folder.parent / "x.argosmodel"
    path.write_bytes(edit_bytes(package, edits))
    with suppress(DragomanError):
        argos_package.read(path, ImportOptions())
