"""Format of GGUF files: metadata and tensors, versions 2 and 3 in little-endian order.

The header has the magic `GGUF`, the version (u32), the numbers of tensors and of metadata entries (u64); then the
entries (name, type, value) and the tensors (name, shape with the fastest axis first, number format, offset). The
numbers follow, aligned. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, final

import numpy as np

from dragoman.errors import ConfigError, DataError, shorten
from dragoman.untrusted_files import MEBIBYTE, FileKind

MAGIC: Final = b"GGUF"
GGUF_FILES: Final = FileKind(2**42, "download it again", error=DataError)
MAX_HEADER: Final = 64 * MEBIBYTE
"""Bytes of metadata and tensor names; a vocabulary of 250,000 tokens takes 10 MiB."""
MAX_ENTRIES: Final = 65_536
MAX_RANK: Final = 4
_VERSIONS: Final = (2, 3)
_NUMBERS: Final = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Format of `struct` by the type of a value."""
_STRING, _ARRAY = 8, 9
_ALIGNMENT = "general.alignment"


@final
@dataclass(frozen=True)
class GgufTensor:
    """Place of a tensor in the file."""

    shape: tuple[int, ...]
    """Slowest axis first, as in NumPy."""
    kind: int
    """Number format, as `gguf.GGMLQuantizationType`."""
    offset: int
    """Bytes from the start of the file."""


@final
@dataclass(frozen=True)
class GgufFile:
    """Header of a file."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]


class _Cursor:
    """Values of a header, one after another. Raises ValueError at its end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        size = struct.calcsize(code)
        if count * size > len(self._content) - self.position:
            raise ValueError("it ends within its header")
        found = struct.unpack_from(f"<{count}{code}", self._content, self.position)
        self.position += count * size
        return found

    def text(self) -> str:
        length = self.number("Q")
        if length > len(self._content) - self.position:
            raise ValueError("it ends within a text")
        self.position += length
        return self._content[self.position - length : self.position].decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError(f"a value has the unknown type {kind}")
        kind, count = self.number("I"), self.number("Q")
        if kind in _NUMBERS:
            return list(self.numbers(_NUMBERS[kind], count))
        if kind != _STRING:
            raise ValueError(f"an array has values of the type {kind}")
        if 8 * count > len(self._content) - self.position:
            raise ValueError("it ends within an array")
        return [self.text() for _ in range(count)]


def read_header(path: Path) -> GgufFile:
    """Read metadata and the places of the tensors. Raises DataError if the file is damaged."""
    with GGUF_FILES.open(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            return _parse(path, _Cursor(file.read(MAX_HEADER)), size)
        except (ValueError, struct.error) as error:
            raise GGUF_FILES.damaged(path, str(error)) from error


def read_tensors(header: GgufFile) -> dict[str, np.ndarray]:
    """Read all tensors, dequantized to float32.

    Raises DataError if a tensor is outside of the file, and ConfigError without the package `gguf`.
    """
    quantization = _quantization()
    with GGUF_FILES.open(header.path) as file:
        size = file.seek(0, 2)
        try:
            return {name: _read(file, tensor, size, quantization) for name, tensor in header.tensors.items()}
        except (ValueError, KeyError, NotImplementedError) as error:
            raise GGUF_FILES.damaged(header.path, shorten(error)) from error


def _parse(path: Path, cursor: _Cursor, size: int) -> GgufFile:
    if b"".join(cursor.numbers("c", 4)) != MAGIC:
        raise ValueError("it does not begin with GGUF")
    if (version := cursor.number("I")) not in _VERSIONS:
        raise ValueError(f"version {version} is unknown")
    count, entries = cursor.numbers("Q", 2)
    if max(count, entries) > MAX_ENTRIES:
        raise ValueError(f"it names {count:,} tensors and {entries:,} settings")
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        name = cursor.text()
        if name in metadata:
            raise ValueError(f"{shorten(name)} is there twice")
        metadata[name] = cursor.value(cursor.number("I"))
    places = [_parse_tensor(cursor) for _ in range(count)]
    alignment = metadata.get(_ALIGNMENT, 32)
    if type(alignment) is not int or not 0 < alignment <= MEBIBYTE:
        raise ValueError(f"its alignment is {shorten(alignment)}")
    start = math.ceil(cursor.position / alignment) * alignment
    tensors = {name: GgufTensor(shape, kind, start + offset) for name, shape, kind, offset in places}
    if len(tensors) < count:
        raise ValueError("two tensors have one name")
    if start > size:
        raise ValueError("it ends before its tensors")
    return GgufFile(path, metadata, tensors)


def _parse_tensor(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name, rank = cursor.text(), cursor.number("I")
    if not 1 <= rank <= MAX_RANK:
        raise ValueError(f"{shorten(name)} has {rank} axes")
    shape = tuple(reversed(cursor.numbers("Q", rank)))
    return name, shape, cursor.number("I"), cursor.number("Q")


def _read(file: BinaryIO, tensor: GgufTensor, size: int, gguf: Any) -> np.ndarray:
    """Read one tensor, whose rows are blocks of the same number format."""
    kind = gguf.GGMLQuantizationType(tensor.kind)
    block, bytes_ = gguf.GGML_QUANT_SIZES[kind]
    if tensor.shape[-1] % block or math.prod(tensor.shape) < 1:
        raise ValueError(f"a tensor of the shape {tensor.shape} is not of whole blocks of {block}")
    length = math.prod(tensor.shape) // block * bytes_
    if tensor.offset + length > size:
        raise ValueError("a tensor is outside of the file")
    file.seek(tensor.offset)
    content = np.frombuffer(file.read(length), np.uint8).reshape(*tensor.shape[:-1], tensor.shape[-1] // block * bytes_)
    match kind.name:
        case "F32":
            found = content.view("<f4")
        case "F16":
            found = content.view("<f2").astype(np.float32)
        case _:
            found = gguf.dequantize(content, kind)
    return np.ascontiguousarray(found, dtype=np.float32).reshape(tensor.shape)


def _quantization() -> Any:
    try:
        import gguf
    except ImportError:
        raise ConfigError("GGUF files need the package gguf. Install it with: pip install 'dragoman[gguf]'") from None
    return gguf
