"""Reading of files that someone else may have written: regular files inside their folder, of bounded size and nesting.

A downloaded folder may contain links to private files, pipes that never end, devices, and small files that take much
memory when they are parsed. `FileKind` reads none of these. Reading takes at most a few times the size of a file.
"""

import errno
import json
import math
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

from dragoman.errors import DataError, DragomanError, describe_unreadable, shorten

MEBIBYTE = 2**20
MAX_DEPTH = 64
"""Maximum nesting of a JSON file: other code may read it recursively."""
MAX_VALUES = 2_000_000
"""Maximum number of values in a JSON file; a value of two bytes takes up to 192 bytes of memory."""
INTEGERS = range(-(2**63), 2**64)
"""Integers in files: others fit no array and no setting."""
MAX_NUMBER = 400
"""Maximum number of characters of a number: reading one takes quadratic time."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
LINK_REMEDY = "it may lead out of its folder. Copy its target here"
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opening a pipe does not wait for its writer."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@final
@dataclass(frozen=True)
class FileKind:
    """Kind of files: maximum size in bytes, and the class and remedy of its errors.

    A file is a member of a folder, which a stranger may have made: a regular file and no symbolic link. A file that the
    user names and writes, such as a configuration, may be a link or a pipe (`is_user_file`).
    """

    max_bytes: int
    remedy: str = "restore it from a copy"
    error: type[DragomanError] = DataError
    is_user_file: bool = False
    if_missing: str = ""
    """Remedy if the file does not exist; the same without."""

    def open(self, path: Path, *, root: Path | None = None) -> BinaryIO:
        """Open a file for reading. Raises `error` if it cannot be opened, is no regular file or too large.

        No folder between `root`, by default the folder of the file, and the file may be a symbolic link.
        """
        try:
            if self.is_user_file:
                return _open_user_file(path)
            descriptor = _open_member(path, path.parent if root is None else root)
        except OSError as error:
            if not self.is_user_file and (link := _first_link(path, path.parent if root is None else root)) is not None:
                raise self.error(f"{link}: is a symbolic link; {LINK_REMEDY}") from None
            raise self._unreadable(path, error) from error
        try:
            self._check(path, os.fstat(descriptor))
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def read_bytes(self, path: Path, *, root: Path | None = None) -> bytes:
        """Return the content of a file. Raises `error` as `open` does."""
        with self.open(path, root=root) as file:
            try:
                content = file.read(self.max_bytes + 1)  # a file may grow, and a pipe has no size
            except OSError as error:
                raise self._unreadable(path, error) from error
        if len(content) > self.max_bytes:
            raise self._too_large(path)
        return content

    def read_text(self, path: Path, *, root: Path | None = None) -> str:
        """Return the content of a UTF-8 file with `\\n` at the line ends. Raises `error` as `open` does."""
        try:
            text = self.read_bytes(path, root=root).decode()
        except UnicodeDecodeError as error:
            raise self.error(
                f"{path}: not UTF-8 ({error.reason} at byte {error.start}); {self._remedy('save it as UTF-8')}"
            ) from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def read_json(self, path: Path, *, root: Path | None = None) -> Any:
        """Return the value in a JSON file. Raises `error` if it is not valid JSON, and as `open` does."""
        try:
            return parse_json(self.read_bytes(path, root=root))
        except ValueError as error:
            raise self.damaged(path, f"not valid JSON: {error}") from error

    def read_json_object(self, path: Path, *, root: Path | None = None) -> dict[str, Any]:
        """Return the object in a JSON file. Raises `error` as `read_json` does."""
        tree = self.read_json(path, root=root)
        if not isinstance(tree, dict):
            raise self.damaged(path, "it is not a mapping")
        return tree

    def read_versioned_json(
        self, path: Path, *, format_name: str, version: int, root: Path | None = None
    ) -> dict[str, Any]:
        """Return the object in a JSON file with this `format` and `format_version`. Raises `error` otherwise."""
        tree = self.read_json(path, root=root)
        if not isinstance(tree, dict) or tree.get("format") != format_name:
            raise self.error(f"{path}: is not of {format_name}, version {version}; {self.remedy}")
        found = tree.get("format_version")
        if isinstance(found, bool) or found != version:
            remedy = "update dragoman" if isinstance(found, int) and found > version else self.remedy
            raise self.error(
                f"{path}: is of version {shorten(found)}, but this program reads version {version}; {remedy}"
            )
        return tree

    def damaged(self, path: Path, reason: str) -> DragomanError:
        """Return the error for a file with invalid content."""
        return self.error(f"{path}: damaged ({reason}); {self.remedy}")

    def _remedy(self, of_user_file: str) -> str:
        return of_user_file if self.is_user_file else self.remedy

    def _unreadable(self, path: Path, error: OSError) -> DragomanError:
        if self.is_user_file:
            return self.error(describe_unreadable(path, error))
        if self.if_missing and isinstance(error, FileNotFoundError):
            return self.error(f"{path}: no such file; {self.if_missing}")
        return self.error(f"{path}: cannot be read ({error.strerror or error}); {self.remedy}")

    def _check(self, path: Path, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or device"
            raise self.error(f"{path}: is {kind}, not a file; {self.remedy}")
        if found.st_size > self.max_bytes:
            raise self._too_large(path)

    def _too_large(self, path: Path) -> DragomanError:
        return self.error(f"{path}: is larger than {self.max_bytes / MEBIBYTE:,g} MiB; {self._remedy('shorten it')}")


def parse_json(content: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError for invalid, deeply nested and huge values.

    Stricter than `json.loads`: an object has no key twice, and a number is finite and fits into 64 bits.
    """
    try:
        text = content.decode() if isinstance(content, bytes) else content
        if text.count(",") + text.count("[") + text.count("{") > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} values")
        tree = _DECODER.decode(text)
        if _SURROGATE.search(text):
            json.dumps(tree, ensure_ascii=False).encode()  # raises a ValueError for half a pair
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} deep") from None
    except MemoryError:
        raise ValueError("too large for the memory") from None
    _check_depth(tree)
    return tree


def _check_depth(tree: Any) -> None:
    level = [tree]
    for _ in range(MAX_DEPTH + 1):
        inner = (node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list))
        level = [child for children in inner for child in children if isinstance(child, dict | list)]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} deep")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        seen = set[str]()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shorten(repeated)} is given twice")
    return tree


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER or int(text) not in INTEGERS:
        raise ValueError(f"the number {shorten(text)} is too large")
    return int(text)


def _float(text: str) -> float:
    if len(text) > MAX_NUMBER or not math.isfinite(float(text)):
        raise ValueError(f"the number {shorten(text)} is too large")
    return float(text)


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _open_user_file(path: Path) -> BinaryIO:
    """Open a file, link or pipe; a pipe without a writer is empty."""
    descriptor = os.open(path, _FILE)
    try:
        file = os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise
    os.set_blocking(descriptor, True)
    return file


def _open_member(path: Path, root: Path) -> int:
    """Open a file below a folder without following links, which `root` itself and the folders above it may be."""
    *folders, name = path.relative_to(root).parts
    if os.path.pardir in folders or name == os.path.pardir or "\0" in str(path):
        raise OSError(errno.EPERM, "outside of its folder")
    if os.open not in os.supports_dir_fd:  # Windows
        return _open_checked(path, [path, *path.parents[: len(folders)]])
    folder = os.open(root, _FOLDER)
    try:
        for part in folders:
            inner = os.open(part, _FOLDER | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(name, _FILE | _NO_LINK, dir_fd=folder)
    finally:
        os.close(folder)


def _first_link(path: Path, root: Path) -> Path | None:
    """Return the first symbolic link among a file and the folders between `root` and the file."""
    parts = path.relative_to(root).parts
    members = (root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))
    return next(filter(os.path.islink, members), None)


def _open_checked(path: Path, members: Sequence[Path]) -> int:
    if any(map(os.path.islink, members)):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return os.open(path, _FILE)
