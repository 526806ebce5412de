"""Hashes of texts, files and JSON values."""

import hashlib
import json
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, describe_unreadable


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
    """Return the SHA-256 of a file on disk. Raises DataError if it cannot be read.

    The file may change before it is read: its readers compare what they read with this fingerprint.
    """
    require_file(path)
    try:
        return _sha256(path.resolve(), file_state(path.stat()))
    except OSError as error:
        raise DataError(describe_unreadable(path, error)) from error


def require_file(path: Path) -> None:
    """Raise DataError if a path is not that of a file, which can be read several times."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or device, which cannot be read twice"
        raise DataError(f"{path}: is {kind}; give a file (.gz, .bz2, .xz and .zst are read as they are)")


def file_state(found: os.stat_result) -> tuple[int, ...]:
    """Return numbers that differ after a change of a file."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def changed_file_error(path: Path) -> DataError:
    """Return the error for a file that changed between its fingerprint and its last byte."""
    _sha256.cache_clear()  # two changes may have the same time
    return DataError(f"{path}: has changed while it was read. Run again when no other program writes to it.")


@lru_cache(maxsize=1024)
def _sha256(path: Path, _state: tuple[int, ...]) -> str:
    """Hash an unchanged file once per process."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
