"""Checksums (CRC-32) inside the files that they protect: safetensors files, JSON files, and texts with `#` comments.

They find damage, such as that of a failing disk or an incomplete copy: every change of one byte, and all but one in
four billion other changes. They do not protect from someone who changes a file and its checksum.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_METADATA, KEY = "__metadata__", "crc32"
"""Key of the checksum in the metadata of a safetensors file, and in a JSON file."""
_BLOCK = 2**20
"""Bytes read at a time."""
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


def to_checked_json(tree: Mapping[str, Any]) -> str:
    """Return the text of a JSON file with the checksum of its content."""
    return json.dumps({**tree, KEY: _json_checksum(tree)}, indent=2) + "\n"


def check_json(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file without its checksum, if any. Raises ValueError if they differ."""
    content = {key: value for key, value in tree.items() if key != KEY}
    if KEY in tree and tree[KEY] != _json_checksum(content):
        raise ValueError(f"it differs from its checksum {KEY}")
    if any(_is_damaged_key(key) for key in content):
        raise ValueError(f"the key of its checksum {KEY} is damaged")
    return content


def _is_damaged_key(key: str) -> bool:
    """Return whether a key is that of the checksum with one other character; without it, nothing would be checked."""
    return len(key) == len(KEY) and sum(one != other for one, other in zip(key, KEY, strict=True)) == 1


def file_checksum(path: Path) -> str:
    """Return the checksum of a file, which is read in blocks."""
    found, block = 0, memoryview(bytearray(_BLOCK))
    with path.open("rb") as file:
        while count := file.readinto(block):
            found = zlib.crc32(block[:count], found)
    return f"{found:08x}"


def _json_checksum(tree: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(tree, sort_keys=True).encode()):08x}"


def seal(text: str) -> str:
    """Append the checksum of a text to it, in a comment."""
    return f"{text}{_SEAL}{zlib.crc32(text.encode()):08x}\n"


def is_sealed(text: str) -> bool:
    """Return whether a text is unchanged since `seal` wrote it; false without a checksum."""
    content, found, _ = text.rpartition(_SEAL)
    return bool(found) and seal(content) == text
