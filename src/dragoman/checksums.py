"""Checksums (CRC-32) inside the files that they protect: safetensors files and text files with `#` comments.

They find damage, such as that of a failing disk or an incomplete copy: every change of one byte, and all but one in
four billion other changes. They do not protect from someone who changes a file and its checksum.
"""

import json
import struct
import zlib

_METADATA, KEY = "__metadata__", "crc32"
"""Key of the checksum in the metadata of a safetensors file."""
_SEAL = "# CRC-32 of the lines above, by which an edited file is recognized: "


def with_checksum(content: bytes) -> tuple[bytes, memoryview]:
    """Return header and tensor data of a safetensors file, with the checksum of the data in the header."""
    (size,) = struct.unpack_from("<Q", content)
    data = memoryview(content)[8 + size :]
    tensors = json.loads(content[8 : 8 + size])
    metadata = tensors.pop(_METADATA, {}) | {KEY: f"{zlib.crc32(data):08x}"}
    header = json.dumps({_METADATA: metadata, **tensors}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # align the data to 8 bytes
    return struct.pack("<Q", len(header)) + header, data


def seal(text: str) -> str:
    """Append the checksum of a text to it, in a comment."""
    return f"{text}{_SEAL}{zlib.crc32(text.encode()):08x}\n"


def is_sealed(text: str) -> bool:
    """Return whether a text is unchanged since `seal` wrote it; false without a checksum."""
    content, found, _ = text.rpartition(_SEAL)
    return bool(found) and seal(content) == text
