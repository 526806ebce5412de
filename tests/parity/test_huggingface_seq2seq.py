"""Encoder-decoder models of transformers, imported: the same logits, tokens and tensors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.interop.huggingface.checkpoint_files import read_weights
from dragoman.interop.huggingface.families import bart, t5
from dragoman.interop.huggingface.partner import read, recognizes
from dragoman.interop.imported_model import ImportedModel, ImportOptions
from dragoman.interop.self_check import check_logits
from tests.huggingface_models import WRITERS, sentences

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
FAMILIES = {family.name: family for family in (*bart.FAMILIES, *t5.FAMILIES)}
_imported: dict[str, tuple[Path, ImportedModel]] = {}


@pytest.fixture(params=WRITERS)
def imported(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportedModel]:
    if request.param not in _imported:
        folder = tmp_path_factory.mktemp(request.param)
        WRITERS[request.param](folder)
        _imported[request.param] = folder, read(folder, ImportOptions())
    return _imported[request.param]


def test_logits_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    assert recognizes(folder)
    found = check_logits(model)
    assert found is not None
    assert found.max_difference < 1e-4
    assert found.same_best == found.positions


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_tokens_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    theirs, order = transformers.AutoTokenizer.from_pretrained(folder), model.origin.orders["source"]
    for text in [*sentences(50, seed=3), "", "  two  spaces ", "Ünknown 語 😀 _x", "a\tb\nc"]:
        ids = [int(order.foreign_ids[index]) for index in model.tokenizer.source.encode(text)]
        assert ids == theirs(text, add_special_tokens=False)["input_ids"], text


def test_tensors_come_back_unchanged(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    family = FAMILIES[str(model.origin.family)]
    table = family.tensor_table(family.name, model.network)
    before = family.rename(read_weights(folder).tensors)
    weights = dict(model.weights)
    for index, bias in model.origin.documents["dragoman"]["silenced_output_bias"].items():
        weights["unembedding.bias"] = weights["unembedding.bias"].copy()
        weights["unembedding.bias"][model.origin.orders["target"].our_ids[int(index)]] = bias
    after = table.write(weights, orders=model.origin.orders)
    assert after.keys() == before.keys() - model.tensors.left_over.keys()
    for name, array in after.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
