"""Checksums (CRC-32) inside the files that they protect: safetensors files and text files with `#` comments.

They find damage, such as that of a failing disk or an incomplete copy: every change of one byte, and all but one in
four billion other changes. They do not protect from someone who changes a file and its checksum.
"""

import json
import struct
import zlib
from pathlib import Path

_METADATA, KEY = "__metadata__", "crc32"
"""Key of the checksum in the metadata of a safetensors file."""
_SEAL = "# CRC-32 of the lines above, by which an edited file is recognized: "
_BLOCK = 2**20
"""Bytes read at a time."""


def with_checksum(content: bytes) -> tuple[bytes, memoryview]:
    """Return header and tensor data of a safetensors file, with the checksum of the data in the header."""
    (size,) = struct.unpack_from("<Q", content)
    data = memoryview(content)[8 + size :]
    tensors = json.loads(content[8 : 8 + size])
    metadata = tensors.pop(_METADATA, {}) | {KEY: f"{zlib.crc32(data):08x}"}
    header = json.dumps({_METADATA: metadata, **tensors}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # align the data to 8 bytes
    return struct.pack("<Q", len(header)) + header, data


class ChecksumError(Exception):
    """Data that differs from its checksum."""


def check_data(path: Path) -> None:
    """Raise ChecksumError if the data of a valid safetensors file differs from the checksum in its header, if any."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        expected = json.loads(file.read(size)).get(_METADATA, {}).get(KEY)
        if expected is None:
            return
        found, block = 0, memoryview(bytearray(_BLOCK))
        while count := file.readinto(block):
            found = zlib.crc32(block[:count], found)
    if f"{found:08x}" != expected:
        raise ChecksumError(f"its data differs from the checksum {KEY} in its metadata")


def seal(text: str) -> str:
    """Append the checksum of a text to it, in a comment."""
    return f"{text}{_SEAL}{zlib.crc32(text.encode()):08x}\n"


def is_sealed(text: str) -> bool:
    """Return whether a text is unchanged since `seal` wrote it; false without a checksum."""
    content, found, _ = text.rpartition(_SEAL)
    return bool(found) and seal(content) == text
