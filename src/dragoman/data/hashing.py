"""Hashes of texts and files, and a compact set of hashes."""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, final

from dragoman.errors import DataError


def text_hash(*texts: str, seed: int = 0) -> int:
    """Return a 64-bit hash of texts that ignores differences in white space; each `seed` gives other hashes."""
    salt = seed.to_bytes(8, "little", signed=True)
    return int.from_bytes(hashlib.blake2b(_content(texts), digest_size=8, salt=salt).digest(), "little")


def pair_hash(source: str, target: str) -> bytes:
    """Return a 128-bit hash of a pair that ignores differences in white space."""
    return hashlib.blake2b(_content((source, target)), digest_size=16).digest()


def _content(texts: Iterable[str]) -> bytes:
    return "\t".join(" ".join(text.split()) for text in texts).encode("utf-8", "surrogatepass")


def json_fingerprint(value: Any) -> str:
    """Return the SHA-256 of a JSON value with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file on disk. Raises DataError if it cannot be read."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or device, which cannot be read twice"
        raise DataError(f"{path}: is {kind}; give a file (.gz, .bz2, .xz and .zst are read as they are)")
    try:
        state = path.stat()
        return _sha256(path.resolve(), state.st_size, state.st_mtime_ns, state.st_ino)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error


@lru_cache(maxsize=1024)
def _sha256(path: Path, _size: int, _modified: int, _inode: int) -> str:
    """Hash an unchanged file once per process."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@final
class HashSet:
    """Set of 64-bit keys by open addressing; 16 to 32 bytes per key, a third of a Python set."""

    def __init__(self, keys: Iterable[int] = ()) -> None:
        self._slots = array("Q", bytes(8 * 16))
        self._count = 0
        for key in keys:
            self.add(key)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (key for key in self._slots if key)

    def __contains__(self, key: int) -> bool:
        return self._slots[self._slot(key or 1)] != 0

    def add(self, key: int) -> bool:
        """Add a key, and return whether it is new."""
        key = key or 1  # 0 marks a free slot
        slot = self._slot(key)
        if self._slots[slot]:
            return False
        self._slots[slot] = key
        self._count += 1
        if 2 * self._count > len(self._slots):
            self._grow()
        return True

    def _slot(self, key: int) -> int:
        """Return the slot of a key, or the free slot for it."""
        slots, mask = self._slots, len(self._slots) - 1
        slot = key & mask
        while slots[slot] and slots[slot] != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        keys = self._slots
        self._slots = array("Q", bytes(16 * len(keys)))
        for key in keys:
            if key:
                self._slots[self._slot(key)] = key
