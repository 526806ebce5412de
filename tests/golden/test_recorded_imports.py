"""Imports of tiny stored models, compared with recorded logits and outputs: no other library is needed."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from dragoman.interop.huggingface import decoder_only, encoder_only, seq2seq
from dragoman.runs.import_model import import_model
from tests.imported_results import describe_difference, our_results

IMPORTS = Path(__file__).parent / "imports"
FOLDERS = sorted(path.name for path in IMPORTS.iterdir() if path.is_dir())
LIMIT = 64_000
"""Bytes of a stored model."""


@pytest.mark.parametrize("name", FOLDERS)
def test_import_equals_recorded_results(name: str, tmp_path: Path) -> None:
    source = IMPORTS / name
    if name == "gguf":
        pytest.importorskip("gguf", reason="the package of llama.cpp reads numbers of float16")
    expected: dict[str, Any] = json.loads((source / "expected.json").read_text(encoding="utf-8"))
    expected["logits"] = np.array(expected["logits"], dtype=np.float32)
    with ExitStack() as stack:
        for reader in (seq2seq, decoder_only, encoder_only):
            stack.enter_context(patch.object(reader, "find_spec", return_value=None))
        result = import_model(source / "model.gguf" if name == "gguf" else source, tmp_path / "run")
    assert result.logits is None
    assert describe_difference(our_results(tmp_path / "run"), expected) == ""


def test_recorded_outputs_differ_between_texts() -> None:
    for name in FOLDERS:
        expected = json.loads((IMPORTS / name / "expected.json").read_text(encoding="utf-8"))
        outputs = expected.get("outputs", expected.get("inputs", [[1], [2]]))
        assert len({tuple(row) for row in outputs}) > 1, name


def test_stored_models_are_small() -> None:
    sizes = {name: sum(path.stat().st_size for path in (IMPORTS / name).iterdir()) for name in FOLDERS}
    assert len(sizes) == 15
    assert max(sizes.values()) < LIMIT
