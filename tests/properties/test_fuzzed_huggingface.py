"""Damaged folders of Hugging Face models give a model or an error of dragoman."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dragoman.errors import DragomanError
from dragoman.interop.huggingface.partner import read, recognizes
from dragoman.interop.imported_model import ImportOptions
from tests.properties.test_fuzzed_files import EDITS, TREE_EDITS, edit_bytes, edit_tree
from tests.property_settings import damaged_files

pytest.importorskip("transformers", reason="writes the files that are damaged")
from tests.huggingface_models import WRITERS

FUZZING = settings(damaged_files(100), suppress_health_check=list(HealthCheck), phases=(Phase.generate,), deadline=None)
FAMILIES = ("marian", "bart", "m2m_100", "t5")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    found = {}
    for name in FAMILIES:
        found[name] = tmp_path_factory.mktemp(name)
        torch.save(WRITERS[name](found[name]).state_dict(), found[name] / "pytorch_model.bin")
    return found


@FUZZING
@given(
    family=st.sampled_from(FAMILIES),
    place=st.integers(0, 100),
    edits=EDITS,
    trees=TREE_EDITS,
    edits_tree=st.booleans(),
    pickled=st.booleans(),
)
def test_damaged_folders(folders, family, place, edits, trees, edits_tree, pickled):
    folder = folders[family]
    hidden = folder / "model.safetensors"
    if pickled:
        hidden.rename(folder / "kept")
    names = sorted(path.name for path in folder.iterdir() if path.name != "kept")
    path = folder / names[place % len(names)]
    content = path.read_bytes()
    damaged = edit_bytes(content, edits)
    if path.suffix == ".json" and edits_tree:
        damaged = json.dumps(edit_tree(json.loads(content), trees)).encode()
    path.write_bytes(damaged)
    try:
        recognizes(folder)
        with suppress(DragomanError):
            read(folder, ImportOptions())
    finally:
        path.write_bytes(content)
        if pickled:
            (folder / "kept").rename(hidden)
