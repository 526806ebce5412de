"""Marian's binary model files, version 1: named tensors in float32, float16, int8 and intgemm8.

All numbers are little-endian: `u64 version, u64 count`; per tensor `u64 name length, type, dimensions, bytes`; the
names, which end with a zero; the sizes, `i32`; `u64 padding` and as many bytes, so that the data begins at a multiple
of 256. The tensors follow without gaps. An intgemm8 matrix (inputs, outputs) is stored as (outputs, inputs), and then
its multiplier in float32: a number is the integer divided by the multiplier (Marian's `common/binary.cpp`, `intgemm`).
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np

from dragoman.array_types import Float32, Int8
from dragoman.atomic_files import write_atomically
from dragoman.errors import DragomanError, shorten_text
from dragoman.untrusted_files import MEBIBYTE, FileKind

MODEL_FILE: Final = FileKind(8192 * MEBIBYTE, "get the file again from where it came")
VERSION: Final = 1
ALIGNMENT: Final = 256
"""Bytes: tensors and the begin of the data are aligned to it."""
SETTINGS: Final = "special:model.yml"
"""Name of the tensor with the settings of the model as YAML text."""
_FLOAT32, _FLOAT16, _INT8, _INTGEMM8 = 0x404, 0x402, 0x101, 0x4101
_OTHER_TYPES: Final = {0x4102: "intgemm16", 0x802: "packed16", 0x1801: "packed8avx2", 0x2801: "packed8avx512"}
_MAX_NAME = 512
_MAX_RANK = 8


@final
@dataclass(frozen=True)
class Int8Matrix:
    """Matrix of integers, which are the numbers times `multiplier`."""

    values: Int8[np.ndarray, "rows columns"]
    multiplier: float
    """A float32."""

    def dequantize(self) -> Float32[np.ndarray, "rows columns"]:
        """Return the numbers."""
        return self.values.astype(np.float32) * (np.float32(1) / np.float32(self.multiplier))


MarianTensor = np.ndarray | Int8Matrix
"""float32 array, int8 array of bytes of a text, or quantized matrix."""
MarianTensors = Mapping[str, MarianTensor]


@final
@dataclass(frozen=True)
class _Header:
    name: str
    type: int
    shape: tuple[int, ...]
    num_bytes: int


def read_binary(path: Path) -> dict[str, MarianTensor]:
    """Return the tensors of a file by name. Raises DataError if it is damaged, or holds other types of numbers."""
    content = memoryview(MODEL_FILE.read_bytes(path))
    try:
        headers, start = _read_headers(content)
        tensors: dict[str, MarianTensor] = {}
        for header in headers:
            if header.name in tensors:
                raise ValueError(f"the tensor {shorten_text(header.name)} is there twice")
            tensors[header.name] = _read_tensor(header, content[start : start + header.num_bytes])
            start += header.num_bytes
    except (ValueError, struct.error) as error:
        raise MODEL_FILE.damaged(path, str(error)) from error
    except _UnsupportedTypeError as error:
        raise MODEL_FILE.error(f"{path}: {error}") from error
    return tensors


class _UnsupportedTypeError(Exception):
    """Numbers that dragoman does not read."""


def _read_headers(content: memoryview) -> tuple[list[_Header], int]:
    """Return the headers and the place of the first tensor. Raises ValueError or struct.error if they are invalid."""
    version, count = struct.unpack_from("<2Q", content)
    if version != VERSION:
        raise ValueError(f"it begins with the version {version}, not {VERSION}")
    if 32 * count > len(content):
        raise ValueError(f"{count:,} tensors do not fit into the file")
    fields = [struct.unpack_from("<4Q", content, 16 + 32 * place) for place in range(count)]
    if any(length > _MAX_NAME or rank > _MAX_RANK for length, _, rank, _ in fields):
        raise ValueError("a name or a shape is too long")
    place = 16 + 32 * count
    names = []
    for length, *_ in fields:
        names.append(_text(content, place, length).rstrip("\0"))
        place += length
    headers = []
    for name, (_, kind, rank, num_bytes) in zip(names, fields, strict=True):
        headers.append(_Header(name, kind, struct.unpack_from(f"<{rank}i", content, place), num_bytes))
        place += 4 * rank
    start = place + 8 + struct.unpack_from("<Q", content, place)[0]
    needed = start + sum(header.num_bytes for header in headers)
    if needed > len(content):
        raise ValueError(f"it has {len(content):,} bytes and needs {needed:,}")
    return headers, start


def _text(content: memoryview, place: int, length: int) -> str:
    if place + length > len(content):
        raise ValueError("it ends within a name")
    return bytes(content[place : place + length]).decode()


def _read_tensor(header: _Header, data: memoryview) -> MarianTensor:
    """Return a tensor. Raises ValueError if its shape does not fit its bytes."""
    if min(header.shape, default=1) < 1:
        raise ValueError(f"the tensor {shorten_text(header.name)} has the shape {list(header.shape)}")
    count = math.prod(header.shape)
    size = {_FLOAT32: 4, _FLOAT16: 2, _INT8: 1, _INTGEMM8: 1}.get(header.type)
    if size is None:
        kind = _OTHER_TYPES.get(header.type, f"0x{header.type:x}")
        raise _UnsupportedTypeError(
            f"{shorten_text(header.name)} holds numbers of the type {kind}, which depend on a processor or are not "
            "read here; use the file in float32 or intgemm8"
        )
    if count * size + 4 * (header.type == _INTGEMM8) > len(data):
        raise ValueError(f"the tensor {shorten_text(header.name)} needs more bytes than it has")
    if header.type == _INTGEMM8:
        return _read_quantized(header, data, count)
    dtype = {_FLOAT32: "<f4", _FLOAT16: "<f2", _INT8: "i1"}[header.type]
    array = np.frombuffer(data, dtype, count).reshape(header.shape)
    return array.astype(np.float32) if header.type != _INT8 else array.astype(np.int8)


def _read_quantized(header: _Header, data: memoryview, count: int) -> Int8Matrix:
    (multiplier,) = struct.unpack_from("<f", data, count)
    if len(header.shape) != 2 or not (math.isfinite(multiplier) and multiplier > 0):
        raise ValueError(f"the matrix {shorten_text(header.name)} has no valid shape or multiplier")
    values = np.frombuffer(data, np.int8, count)
    if is_transposed(header.name):
        return Int8Matrix(np.ascontiguousarray(values.reshape(header.shape[::-1]).T), multiplier)
    return Int8Matrix(values.reshape(header.shape).copy(), multiplier)


def is_transposed(name: str) -> bool:
    """Return whether an intgemm8 matrix is stored transposed: all are but embeddings, which are output layers, too."""
    return not name.endswith("Wemb")


def write_binary(path: Path, tensors: MarianTensors) -> None:
    """Write float32, int8 and quantized tensors atomically, in the order of their names."""
    names = sorted(tensors)
    items = [_encode(name, tensors[name]) for name in names]
    head = struct.pack("<2Q", VERSION, len(names))
    words = [name.encode() + b"\0" for name in names]
    for word, (kind, shape, data) in zip(words, items, strict=True):
        head += struct.pack("<4Q", len(word), kind, len(shape), len(data))
    head += b"".join(words) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _ in items)
    padding = -(len(head) + 8) % ALIGNMENT
    head += struct.pack("<Q", padding) + bytes(padding)
    write_atomically(path, head, *(data for _, _, data in items))


def _encode(name: str, tensor: MarianTensor) -> tuple[int, tuple[int, ...], bytes]:
    """Return type, shape and aligned bytes of a tensor."""
    if isinstance(tensor, Int8Matrix):
        values = tensor.values.T if is_transposed(name) else tensor.values
        data = values.tobytes() + struct.pack("<f", tensor.multiplier)
        return _INTGEMM8, tensor.values.shape, data + bytes(-len(data) % ALIGNMENT)
    if tensor.dtype == np.int8:  # a text, which is the last tensor and not aligned
        return _INT8, tensor.shape, tensor.tobytes()
    data = tensor.astype("<f4").tobytes()
    return _FLOAT32, tensor.shape, data + bytes(-len(data) % ALIGNMENT)


def is_binary(head: bytes) -> bool:
    """Return whether a file that begins with these bytes may be a binary model."""
    if len(head) < 16:
        return False
    version, count = struct.unpack_from("<2Q", head)
    return bool(version == VERSION and 0 < count < 2**20)


def settings_text(tensors: MarianTensors, *, where: Path) -> str:
    """Return the settings of a model as YAML text. Raises DataError if there are none."""
    tensor = tensors.get(SETTINGS)
    if not isinstance(tensor, np.ndarray):
        raise _no_settings(where)
    try:
        return tensor.astype(np.int8).tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise _no_settings(where) from error


def _no_settings(where: Path) -> DragomanError:
    return MODEL_FILE.error(f"{where}: has no settings ({SETTINGS}); get the file that Marian's training wrote")
