"""Reading of safetensors files whose header is checked before memory is allocated for the tensors.

A file is an 8-byte size, a JSON header of this size and the tensors: https://huggingface.co/docs/safetensors. Its
checksum is verified while the tensors are read.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dragoman.checksums import KEY
from dragoman.errors import ConfigError, RunError, shorten
from dragoman.untrusted_files import MEBIBYTE, FileKind, parse_json

WEIGHTS = FileKind(2**44, error=RunError, if_missing="is the folder a complete run or checkpoint?")
MAX_HEADER = 8 * MEBIBYTE
MAX_TENSORS = 50_000
"""A Transformer of 1,000 layers has fewer, also as int8 with scales or as the state of an optimizer."""
_MAX_DIMENSIONS = 16
ITEM_SIZES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "BOOL": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
}
"""Bytes per number by format."""

_T = TypeVar("_T")


@final
@dataclass(frozen=True)
class TensorHeader:
    """Format, shape and place of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    """First byte, counted from the end of the header."""
    stop: int


@final
class SafetensorsFile:
    """Open safetensors file with a valid header."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        """Read the header of a file of this size. Raises ValueError if it is invalid or does not fit the file."""
        self._file = file
        header_size = int.from_bytes(_read(file, 8), "little")
        if header_size > MAX_HEADER:
            raise ValueError(f"its header is larger than {MAX_HEADER // MEBIBYTE} MiB")
        tree = parse_json(_read(file, header_size))
        if not isinstance(tree, dict) or len(tree) > MAX_TENSORS:
            raise ValueError(f"its header is no mapping of at most {MAX_TENSORS:,} tensors")
        metadata = tree.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(one, str) for one in metadata.values()):
            raise ValueError("its metadata is no mapping of texts")
        self.metadata: Mapping[str, str] = metadata
        found = sorted(((name, _parse_tensor(name, one)) for name, one in tree.items()), key=lambda pair: pair[1].start)
        self.tensors: Mapping[str, TensorHeader] = dict(found)
        """Header of each tensor, in the order of the file."""
        ends = [0, *(one.stop for one in self.tensors.values())]
        if any(one.start != end for one, end in zip(self.tensors.values(), ends, strict=False)):
            raise ValueError("its tensors overlap or leave gaps")
        if ends[-1] != size - 8 - header_size:
            raise ValueError(f"its tensors take {ends[-1]:,} bytes, and it has {size - 8 - header_size:,}")

    def read(self, allocate: Callable[[TensorHeader], tuple[_T, memoryview]]) -> dict[str, _T]:
        """Return the tensors; `allocate` returns a new one and its memory.

        Raises ValueError if the file is cut off or differs from the checksum in its metadata, if any.
        """
        found, checksum = {}, 0
        for name, header in self.tensors.items():
            found[name], memory = allocate(header)
            _read_into(self._file, memory)
            checksum = zlib.crc32(memory, checksum)
        if KEY in self.metadata and self.metadata[KEY] != f"{checksum:08x}":
            raise ValueError(f"its data differs from the checksum {KEY} in its metadata")
        return found


@contextmanager
def open_safetensors(path: Path, kind: FileKind, *, root: Path | None = None) -> Iterator[SafetensorsFile]:
    """Open a safetensors file. A ValueError in the block, and an invalid header, raise the error of the kind."""
    with kind.open(path, root=root) as file:
        try:
            yield SafetensorsFile(file, file.seek(0, 2) - file.seek(0))
        except (ValueError, OSError, MemoryError) as error:
            reason = "too large for the memory" if isinstance(error, MemoryError) else error
            raise kind.error(f"{path}: damaged or not a safetensors file ({reason}); {kind.remedy}") from error


def read_arrays(path: Path, kind: FileKind, *, root: Path | None = None) -> dict[str, NDArray[Any]]:
    """Return the tensors as arrays; bfloat16 becomes uint16 with the same bits. Raises the error of the kind."""
    with open_safetensors(path, kind, root=root) as file:
        return file.read(allocate_array)


_ARRAY_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "BOOL": "?",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
}


_UNREAD = frozenset(["C64", "F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"])
"""Number formats of safetensors that have no arrays in NumPy."""


def allocate_array(header: TensorHeader) -> tuple[NDArray[Any], memoryview]:
    """Return an array for a tensor, and its memory."""
    array = np.empty(header.shape, dtype=_ARRAY_DTYPES[header.dtype])
    return array, array.reshape(-1).view(np.uint8).data


def _parse_tensor(name: str, tree: Any) -> TensorHeader:
    match tree:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(stop)], **rest} if not rest:
            pass
        case _:
            raise ValueError(f"the header of {shorten(name)} is invalid")
    if dtype in _UNREAD:
        raise ConfigError(
            f"{shorten(name)} has the number format {dtype}, which dragoman does not read. Use a file of float32, "
            "float16 or bfloat16."
        )
    if dtype not in ITEM_SIZES:
        raise ValueError(f"{shorten(name)} is of the unknown type {shorten(dtype)}")
    if len(shape) > _MAX_DIMENSIONS or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{shorten(name)} is of the invalid shape {shorten(shape)}")
    if math.prod(shape) * ITEM_SIZES[dtype] != stop - start:
        raise ValueError(f"{shorten(name)} has {stop - start:,} bytes, which do not fit its shape {shorten(shape)}")
    return TensorHeader(dtype, tuple(shape), start, stop)


def _read(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise ValueError("it is cut off")
    return content


def _read_into(file: BinaryIO, memory: memoryview) -> None:
    while len(memory):
        count = file.readinto(memory)  # type: ignore[attr-defined]
        if not count:
            raise ValueError("it is cut off")
        memory = memory[count:]
