"""CTranslate2's `model.bin`: named variables and their aliases. Versions 2 to 6 are read, and 6 is written.

All numbers are little-endian. The file holds u32 version, string specification, u32 revision, u32 count and the
variables. A variable is string name, u8 rank, u32 sizes, its number format and the data; the format is u8 type and u32
bytes from version 4, and u8 item size and u32 items before. From version 3, u32 count and pairs of strings (alias,
name) follow. A string is u16 length, closing zero included, and its bytes. Format: `model_spec.py` of CTranslate2.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar, final

import torch
from torch import Tensor

from dragoman.atomic_files import write_atomically
from dragoman.errors import RunError, shorten
from dragoman.safetensors_files import MAX_TENSORS
from dragoman.untrusted_files import FileKind

FILE_NAME = "model.bin"
VERSIONS = range(2, 7)
DTYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
"""Number formats by their type in the file."""
_DTYPES_BY_ITEM_SIZE = {4: torch.float32, 2: torch.int16, 1: torch.int8}
"""Number formats before version 4, which told no other ones apart."""
_MAX_RANK = 8
_MAX_VERSION, _MAX_NAME = 100, 100
"""Bounds of version and length of the name, by which a file is recognized."""
_MAX_BYTES = 2**32 - 1
"""Bytes of a variable, whose count is a u32."""
_FILE = FileKind(2**44, "convert the model again with CTranslate2", error=RunError)
_T = TypeVar("_T")


@final
@dataclass(frozen=True)
class ModelFile:
    """Content of a `model.bin`: weights, and attributes as tensors without dimensions or, for texts, of int8."""

    spec: str
    """Name of the specification: `TransformerSpec`, `TransformerDecoderSpec` or an older one."""
    revision: int
    """Revision of the specification."""
    variables: Mapping[str, Tensor]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Variable of each alias."""
    version: int = VERSIONS[-1]

    def resolve(self) -> dict[str, Tensor]:
        """Return every tensor by every name it has; an alias also names the scale and zero of a quantized weight."""
        found = dict(self.variables)
        for alias, name in self.aliases.items():
            for suffix in ("", "_scale", "_zero"):
                if name + suffix in self.variables:
                    found.setdefault(alias + suffix, self.variables[name + suffix])
        return found


def is_model_file(path: Path) -> bool:
    """Return whether a file begins like one of this format: a small version, and the name of a specification."""
    try:
        with _FILE.open(path) as file:
            start = file.read(6)
    except RunError:
        return False
    if len(start) < 6:
        return False
    version, length = struct.unpack("<IH", start)
    return VERSIONS[0] <= version < _MAX_VERSION and 0 < length < _MAX_NAME


def read_model_file(path: Path) -> ModelFile:
    """Read a file. Raises RunError if it is missing, damaged or of another version.

    Memory is allocated for a variable after its sizes were checked against the rest of the file.
    """
    with _FILE.open(path) as file:
        try:
            return _read(_Reader(file, file.seek(0, 2) - file.seek(0)))
        except (ValueError, OSError, MemoryError) as error:
            reason = "too large for the memory" if isinstance(error, MemoryError) else error
            raise _FILE.damaged(path, f"no model of CTranslate2: {reason}") from error


def write_model_file(path: Path, model: ModelFile) -> None:
    """Write a file of version 6 atomically. Raises RunError if it cannot be written, or a weight exceeds 4 GiB."""
    parts: list[bytes | memoryview | str] = [struct.pack("<I", VERSIONS[-1]), _string(model.spec)]
    parts.append(struct.pack("<II", model.revision, len(model.variables)))
    for name, tensor in model.variables.items():
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        if data.nbytes > _MAX_BYTES:
            raise RunError(f"{path}: {name} has {data.nbytes:,} bytes, and the format holds {_MAX_BYTES:,}")
        sizes = struct.pack(f"<B{tensor.dim()}I", tensor.dim(), *tensor.shape)
        parts += [_string(name), sizes, struct.pack("<BI", DTYPES.index(tensor.dtype), data.nbytes), data]
    parts.append(struct.pack("<I", len(model.aliases)))
    parts += [_string(text) for pair in model.aliases.items() for text in pair]
    write_atomically(path, *parts)


def _string(text: str) -> bytes:
    encoded = text.encode() + b"\0"
    return struct.pack("<H", len(encoded)) + encoded


class _Reader:
    """File that knows how many bytes are left."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self._file = file
        self.left = left

    def bytes(self, count: int) -> bytearray:
        """Return the next bytes. Raises ValueError, before allocating, if fewer are left."""
        if count > self.left:
            raise ValueError(f"it ends {count - self.left:,} bytes too early")
        found = bytearray(count)
        if self._file.readinto(found) != count:  # type: ignore[attr-defined]  # a buffered reader
            raise ValueError("it became shorter while it was read")
        self.left -= count
        return found

    def numbers(self, format_: str) -> tuple[int, ...]:
        return struct.unpack(f"<{format_}", self.bytes(struct.calcsize(f"<{format_}")))

    def number(self, format_: str) -> int:
        return self.numbers(format_)[0]

    def string(self) -> str:
        encoded = self.bytes(self.number("H"))
        if encoded[-1:] != b"\0" or b"\0" in encoded[:-1]:
            raise ValueError("a name does not end with a zero")
        return encoded[:-1].decode()

    def count(self, what: str, *, least: int) -> int:
        """Return the next count, of parts that take at least `least` bytes each."""
        count = self.number("I")
        if count > MAX_TENSORS or count * least > self.left:
            raise ValueError(f"it claims {count:,} {what}")
        return count


def _read(reader: _Reader) -> ModelFile:
    version = reader.number("I")
    if version not in VERSIONS:
        raise ValueError(f"its version is {version}, and {VERSIONS[0]} to {VERSIONS[-1]} are read")
    spec, revision = reader.string(), reader.number("I")
    variables = _collect(
        (_read_variable(reader, version) for _ in range(reader.count("variables", least=9))), "variable"
    )
    aliases: dict[str, str] = {}
    if version >= 3:
        pairs = ((reader.string(), reader.string()) for _ in range(reader.count("aliases", least=6)))
        aliases = _collect(pairs, "alias")
    for alias, name in aliases.items():
        if alias in variables or name not in variables:
            raise ValueError(f"{shorten(alias)} is no valid alias of {shorten(name)}")
    if reader.left:
        raise ValueError(f"{reader.left:,} bytes follow its end")
    return ModelFile(spec, revision, variables, aliases, version)


def _collect(pairs: Iterator[tuple[str, _T]], kind: str) -> dict[str, _T]:
    found: dict[str, _T] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it holds the {kind} {shorten(name)} twice")
        found[name] = value
    return found


def _read_variable(reader: _Reader, version: int) -> tuple[str, Tensor]:
    name, rank = reader.string(), reader.number("B")
    if rank > _MAX_RANK:
        raise ValueError(f"{shorten(name)} has {rank} dimensions")
    shape = reader.numbers(f"{rank}I")
    kind = reader.number("B")
    dtype = dict(enumerate(DTYPES)).get(kind) if version >= 4 else _DTYPES_BY_ITEM_SIZE.get(kind)
    if dtype is None:
        raise ValueError(f"{shorten(name)} has the unknown number format {kind}")
    size, claimed = math.prod(shape) * dtype.itemsize, reader.number("I") * (1 if version >= 4 else kind)
    if size != claimed:
        raise ValueError(f"{shorten(name)} of shape {list(shape)} claims {claimed:,} bytes")
    data = reader.bytes(size)
    return name, torch.frombuffer(data, dtype=dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)
