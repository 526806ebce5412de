"""Weights of Hugging Face models: safetensors and pickles, in one file or several, from strangers."""

import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dragoman.errors import DataError
from dragoman.interop.huggingface.checkpoint_files import read_weights

TENSORS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.ones(5)}


def write_shards(folder: Path) -> None:
    for number, name in enumerate(TENSORS, start=1):
        save_file({name: TENSORS[name]}, folder / f"model-{number}.safetensors")
    names = {name: f"model-{number}.safetensors" for number, name in enumerate(TENSORS, start=1)}
    write_index(folder, names)


def write_index(folder: Path, names: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


@pytest.mark.parametrize("kind", ["safetensors", "shards", "bin", "legacy bin", "wrapped bin"])
def test_weights_are_read_from_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    match kind:
        case "safetensors":
            save_file(TENSORS, tmp_path / "model.safetensors")
        case "shards":
            write_shards(tmp_path)
        case _:
            tree = {"state_dict": TENSORS} if kind == "wrapped bin" else TENSORS
            path = tmp_path / "pytorch_model.bin"
            torch.save(tree, path, _use_new_zipfile_serialization=kind != "legacy bin")
    found = read_weights(tmp_path)
    assert found.tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        np.testing.assert_array_equal(found.tensors[name], tensor.numpy())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_formats_become_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.tensor([1.5, -2.25, 0.1]).to(dtype)
    save_file({"x": tensor, "position_ids": torch.arange(3)}, tmp_path / "model.safetensors")
    found = read_weights(tmp_path)
    assert found.tensors.keys() == {"x"}
    assert found.dtype == str(dtype).removeprefix("torch.")
    np.testing.assert_array_equal(found.tensors["x"], tensor.float().numpy())


class Payload:
    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("is_zip", [True, False])
def test_pickles_do_not_run_code(is_zip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": Payload()}, path, _use_new_zipfile_serialization=is_zip)
    with pytest.raises(DataError, match=r"not loaded|no file of tensors|not a file"):
        read_weights(tmp_path)
    path.write_bytes(pickle.dumps(Payload()))
    with pytest.raises(DataError, match=r"not loaded|no file of tensors|not a file"):
        read_weights(tmp_path)
    assert not (tmp_path / "executed").exists()


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(100_000)}, tmp_path / "plain.bin")
    with (
        zipfile.ZipFile(tmp_path / "plain.bin") as plain,
        zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in plain.namelist():
            packed.writestr(member, plain.read(member))
    with pytest.raises(DataError, match="compressed"):
        read_weights(tmp_path)


def test_views_larger_than_the_file_are_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1).expand(10**10)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match="is larger than"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"a.weight": "../model-1.safetensors"}, "no .safetensors file next to it"),
        ({"a.weight": "pytorch_model.bin"}, "no .safetensors file next to it"),
        ({"a.weight": "model-1.safetensors"}, "no such file|cannot be read"),
        ({"a.weight": 7}, "next to it"),
        ([], "no mapping"),
        ({}, "no mapping"),
    ],
)
def test_index_that_names_other_files_is_refused(names: Any, message: str, tmp_path: Path) -> None:
    write_index(tmp_path, names)
    with pytest.raises(DataError, match=message):
        read_weights(tmp_path)


def test_shard_with_other_tensors_is_refused(tmp_path: Path) -> None:
    write_shards(tmp_path)
    save_file({"c": TENSORS["b"]}, tmp_path / "model-2.safetensors")
    with pytest.raises(DataError, match="differs from the index"):
        read_weights(tmp_path)


def test_links_are_refused(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "elsewhere.safetensors")
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(DataError, match="is a symbolic link"):
        read_weights(inner)


def test_header_of_ten_gigabytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes((10 * 2**30).to_bytes(8, "little") + b"{}")
    with pytest.raises(DataError, match="larger than 8 MiB"):
        read_weights(tmp_path)
