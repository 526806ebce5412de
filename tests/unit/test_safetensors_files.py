"""Reading of safetensors files that someone else may have written."""

import json
import struct
import time
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load
from safetensors.torch import save as save_torch

from dragoman.errors import RunError
from dragoman.models.weight_storage import load_tensors
from dragoman.safetensors_files import WEIGHTS, open_safetensors, read_arrays


def content_of(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(start: int = 0, stop: int = 4, *, dtype: object = "F32", shape: object = (1,)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is cut off"),
        (b"1234567", "it is cut off"),
        (struct.pack("<Q", 2**63), "its header is larger than 8 MiB"),
        (struct.pack("<Q", 100) + b"{}", "it is cut off"),
        (content_of(b"{"), "Expecting property name"),
        (content_of([]), "its header is no mapping"),
        (content_of({"__metadata__": {"crc32": 1}}), "its metadata is no mapping of texts"),
        (content_of({"__metadata__": []}), "its metadata is no mapping of texts"),
        (content_of({"a": 1}), "the header of 'a' is invalid"),
        (content_of({"a": {"dtype": "F32"}}), "the header of 'a' is invalid"),
        (content_of({"a": entry() | {"x": 1}}, bytes(4)), "the header of 'a' is invalid"),
        (content_of({"a": entry(dtype="O")}, bytes(4)), "'a' is of the unknown type 'O'"),
        (content_of({"a": entry(dtype=[])}, bytes(4)), "the header of 'a' is invalid"),
        (content_of({"a": entry(shape=[-1])}, bytes(4)), "'a' is of the invalid shape"),
        (content_of({"a": entry(shape=[True])}, bytes(4)), "'a' is of the invalid shape"),
        (content_of({"a": entry(shape=[1.0])}, bytes(4)), "'a' is of the invalid shape"),
        (content_of({"a": entry(shape=[1] * 20)}, bytes(4)), "'a' is of the invalid shape"),
        (content_of({"a": entry(shape=[2])}, bytes(4)), "'a' has 4 bytes, which do not fit its shape"),
        (content_of({"a": entry(shape=[2**62, 4])}, bytes(4)), "'a' has 4 bytes, which do not fit its shape"),
        (content_of({"a": entry(), "b": entry()}, bytes(4)), "its tensors overlap or leave gaps"),
        (content_of({"a": entry(4, 8)}, bytes(8)), "its tensors overlap or leave gaps"),
        (content_of({"a": entry()}, bytes(3)), "its tensors take 4 bytes, and it has 3"),
        (content_of({"a": entry()}, bytes(5)), "its tensors take 4 bytes, and it has 5"),
        (content_of(b'{"a": {}, "a": {}}'), "the key 'a' is given twice"),
        (content_of({"a" * 10**6: 1}), "the header of 'aaa.*aaa... is invalid"),
    ],
)
def test_invalid_files_are_refused(tmp_path, content, problem):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    for load_file in (load_tensors, lambda path: read_arrays(path, WEIGHTS)):
        with pytest.raises(
            RunError, match=rf"a\.safetensors: damaged or not a safetensors file \(.*{problem}.*\); rest"
        ) as caught:
            load_file(path)
        assert len(str(caught.value)) < 500


def test_formats_are_read_as_the_library_reads_them(tmp_path):
    dtypes = [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "bool",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint64",
        "uint32",
        "uint16",
        "uint8",
    ]
    tensors = {name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in dtypes}
    tensors |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "none": torch.zeros(3, 0, dtype=torch.int8)}
    path = tmp_path / "a.safetensors"
    path.write_bytes(save_torch(tensors))
    found = load_tensors(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    arrays = read_arrays(path, WEIGHTS)
    assert arrays.pop("bfloat16").tolist() == tensors["bfloat16"].view(torch.uint16).tolist()
    for name, array in arrays.items():
        assert np.array_equal(array, tensors[name].numpy())
        assert array.dtype == tensors[name].numpy().dtype


def test_header_is_read_without_the_tensors(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(save_torch({"a": torch.zeros(10**7), "b": torch.zeros(2, 3, dtype=torch.int8)}))
    tracemalloc.start()
    with open_safetensors(path, WEIGHTS) as file:
        assert {name: (one.dtype, one.shape) for name, one in file.tensors.items()} == {
            "a": ("F32", (10**7,)),
            "b": ("I8", (2, 3)),
        }
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_the_largest_header_is_refused_in_seconds(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content_of(b"{" + b",".join(b'"%d":1' % n for n in range(700_000)) + b"}"))
    assert path.stat().st_size > 7 * 2**20
    start = time.process_time()
    with pytest.raises(RunError, match="its header is no mapping of at most 50,000 tensors"):
        load_tensors(path)
    assert time.process_time() - start < 5


@given(st.integers(0, 200), st.binary(max_size=6), st.integers(0, 6))
def test_changed_files_are_read_as_the_library_reads_them_or_refused(tmp_path_factory, place, inserted, removed):
    path = tmp_path_factory.getbasetemp() / "changed.safetensors"
    content = save_torch({"a": torch.arange(6).reshape(2, 3), "b": torch.tensor([1.5])})
    changed = content[:place] + inserted + content[place + removed :]
    path.write_bytes(changed)
    try:
        found = read_arrays(path, WEIGHTS)
    except RunError:
        return
    expected = load(changed)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(array, expected[name], equal_nan=True) for name, array in found.items())
