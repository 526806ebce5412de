"""Checksums in safetensors and text files: every altered byte is found or harmless."""

import json
import struct
from contextlib import suppress

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from dragoman.checksums import is_sealed, seal
from dragoman.data.shortlist import Shortlist
from dragoman.errors import DataError, RunError
from dragoman.models.weight_quantization import load_arrays, save_arrays
from dragoman.models.weight_storage import load_tensors, save_tensors

NAMES = {"a.weight", "b", "b_scale"}


def arrays():
    return {
        "a.weight": np.arange(10, dtype=np.float32).reshape(2, 5),
        "b": np.array([[1, -2, 3]], dtype=np.int8),
        "b_scale": np.array([0.5], dtype=np.float32),
    }


def save_as_tensors(path, arrays):
    save_tensors(path, {name: torch.from_numpy(array) for name, array in arrays.items()})


def load_as_arrays(path):
    return {name: tensor.numpy() for name, tensor in load_tensors(path).items()}


STORAGES = pytest.mark.parametrize(
    ("save", "load"), [(save_arrays, load_arrays), (save_as_tensors, load_as_arrays)], ids=["numpy", "torch"]
)


@STORAGES
def test_every_altered_byte_is_found_or_harmless(tmp_path, save, load):
    path, expected = tmp_path / "model.safetensors", arrays()
    save(path, expected)
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x04]) + content[place + 1 :])
        if place >= 8 + size:
            with pytest.raises(RunError, match="damaged"):
                load(path)
            continue
        with suppress(RunError):
            found = load(path)
            # The model, which knows its weights, finds an altered name, shape or format.
            same = found.keys() == NAMES and all(found[name].shape == expected[name].shape for name in NAMES)
            assert not same or all(np.array_equal(found[name], expected[name], equal_nan=True) for name in NAMES)


@STORAGES
def test_files_of_other_programs_load_without_checksum(tmp_path, save, load):
    path, expected = tmp_path / "model.safetensors", arrays()
    save_file(expected, path)
    assert all(np.array_equal(array, expected[name]) for name, array in load(path).items())
    save(path, expected)
    assert all(np.array_equal(array, expected[name]) for name, array in load_file(path).items())


def test_damaged_weights_name_checksum_and_remedy(tmp_path):
    path = tmp_path / "model.safetensors"
    save_arrays(path, arrays())
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\x07")
    with pytest.raises(RunError) as caught:
        load_tensors(path)
    assert str(caught.value).startswith(f"{path}: damaged")
    assert "checksum crc32 in its metadata" in str(caught.value)
    assert "restore it from a copy" in str(caught.value)


def test_damaged_shortlist_is_refused(tmp_path):
    path = tmp_path / "shortlist.safetensors"
    Shortlist(*(np.array(ids, dtype=np.int32) for ids in ([3], [5, 7], [1, 1]))).save(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<i", 7), struct.pack("<i", 6)))
    with pytest.raises(DataError, match="checksum"):
        Shortlist.load(path)


def test_header_keeps_its_form(tmp_path):
    path = tmp_path / "model.safetensors"
    save_arrays(path, arrays())
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    assert size % 8 == 0
    assert json.loads(content[8 : 8 + size]).keys() == {"__metadata__", *NAMES}


def test_seal_recognizes_edited_text():
    text = seal("seed: 1\nname: größer\n")
    assert text.startswith("seed: 1\nname: größer\n# ")
    assert is_sealed(text)
    for edited in (text.replace("1", "2", 1), text + "more: 1\n", "more: 1\n" + text, "seed: 1\n", ""):
        assert not is_sealed(edited)
