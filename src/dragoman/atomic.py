"""The one way anything is put on disk: whole or not at all.

A file is written beside its place, forced to the disk, and renamed. A folder is written under a hidden name and renamed
when it is complete, so that whoever finds the name finds everything in it.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO, TypeVar

from dragoman.errors import DataError, RunError

T = TypeVar("T")


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace `path` by `content`. Raises RunError where the disk refuses; what was there before stays."""
    data = content.encode() if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write(beside, data)
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        _remove(beside)
        raise refused(path, error) from error


def require_writable(path: Path) -> None:
    """Raises RunError where a file of this name could not be written, which one better knows before the work."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # a device or a pipe, which is written to as it is
    place = path.resolve()
    try:
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        beside = place.with_name(f".{place.name}.{os.getpid()}.tmp")
        _write(beside, b"")
        beside.unlink()
    except OSError as error:
        raise refused(path, error) from error


@contextmanager
def new_text_file(path: Path) -> Iterator[TextIO]:
    """A text file to fill, UTF-8 with line feeds; it takes the name `path` when the block ends, not when it raises.

    What is no regular file, such as a device or a named pipe, is written to as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    path = path.resolve()
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise refused(path, error) from error
    finally:
        _remove(beside)


def write_text(path: Path, text: str) -> None:
    """Write what a person asked for at `path`: through a link, or into a device, and else whole or not at all."""
    with new_text_file(path) as file:
        file.write(text)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `path` when the block ends and vanishes when it raises."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        yield beside
        sync_files(beside)
        if path.exists():
            shutil.rmtree(path)
        beside.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise refused(path, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """Inside, nobody else is inside with the same file, which is made; without effect where the system has no locks."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    except OSError as error:
        raise refused(lock, error) from error
    with file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def opened_or_made(folder: Path, opened: Callable[[], T], made: Callable[[], T]) -> T:
    """What is stored in a folder; where `opened` raises DataError, what one process alone makes there for all."""
    try:
        return opened()
    except DataError:
        with in_turn(folder.with_name(f".{folder.name}.lock")):
            try:
                return opened()
            except DataError:
                return made()


def names_apart(paths: Sequence[Path]) -> list[str]:
    """Of each path so many of its last parts as tell all of them apart, and a number where nothing else does."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} {number}" for number, path in enumerate(paths, start=1)]


def sync_files(folder: Path) -> None:
    """Force the files of a folder to the disk; a folder in it was made whole before."""
    for file in folder.iterdir():
        if file.is_file():
            _sync(file)
    _sync_folder(folder)


def refused(path: Path, error: OSError) -> RunError:
    """The disk's refusal in words, with the remedy."""
    remedy = "free some space and run again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the path"
    return RunError(f"{path}: cannot be written ({error.strerror or error}); {remedy}")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    with suppress(OSError):  # it may not be there, nor its folder
        path.unlink()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
