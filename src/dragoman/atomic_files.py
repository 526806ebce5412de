"""Atomic file and folder writes.

A file is written under a temporary name, forced to disk and renamed. A folder is filled under a hidden name and renamed
when it is complete, so that a folder with the final name is complete. A process locks what it writes: what a killed
process left behind has no lock, and the next process that writes the same name removes it.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeVar

from dragoman.errors import DataError, RunError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_T = TypeVar("_T")


class WriteError(RunError):
    """File that cannot be written; `problem` is the message without the remedy."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.problem = f"{path}: cannot be written ({error.strerror or error})"
        self.is_disk_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space and run again" if self.is_disk_full else "check the path"
        super().__init__(f"{self.problem}; {remedy}")


def write_atomically(path: Path, *content: bytes | memoryview | str) -> None:
    """Replace `path` by the parts of its content. Raises RunError if it cannot be written; the previous file stays."""
    with _new_file(path) as partial, partial.open("wb") as file:
        file.writelines(part.encode() if isinstance(part, str) else part for part in content)


def require_writable(path: Path) -> None:
    """Raise RunError if a file of this name cannot be written, so that the error comes before the work."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # a device or a pipe
    target = path.resolve()
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial = _temporary(target)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WriteError(path, error) from error


@contextmanager
def new_text_file(path: Path) -> Iterator[TextIO]:
    """Open a text file, UTF-8 with line feeds, that takes the name `path` when the block ends without an exception.

    Devices and named pipes are written directly.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    with _new_file(path.resolve()) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def write_text(path: Path, text: str) -> None:
    """Write a text file as `new_text_file` does."""
    with new_text_file(path) as file:
        file.write(text)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Create a folder that takes the name `path` when the block ends, and is removed if the block raises."""
    partial = _temporary(path)
    try:
        _remove_abandoned(path)
        shutil.rmtree(partial, ignore_errors=True)
        make_folder(partial)
        with _locked(partial):
            yield partial
            sync_files(partial)
            if path.exists():
                shutil.rmtree(path)
            partial.rename(path)
        _sync(path.parent)
    except OSError as error:
        raise WriteError(path, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Create a folder and the folders above it, so that they are on disk. Raises OSError as `Path.mkdir` does."""
    if not path.parent.is_dir():
        with suppress(FileExistsError):  # another process may create the same
            make_folder(path.parent)
    path.mkdir()
    _sync(path.parent)


def rename_folder(path: Path, new: Path) -> None:
    """Rename a folder inside its parent, so that the name is on disk."""
    path.rename(new)
    _sync(new.parent)


def append_line(path: Path, line: str) -> None:
    """Append a line to a file, which is created, so that it is on disk. Raises RunError if it cannot be written."""
    is_new = not path.exists()
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            _sync(path.parent)
    except OSError as error:
        raise WriteError(path, error) from error


@contextmanager
def file_lock(lock: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is created; without effect on systems without locks."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    except OSError as error:
        raise WriteError(lock, error) from error
    with file:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def try_lock(descriptor: int) -> bool:
    """Return whether this process holds the exclusive lock of an open file; true on systems without locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def open_or_build(folder: Path, open_folder: Callable[[Path], _T], build: Callable[[Path], _T]) -> _T:
    """Return the content of a folder; if `open_folder` raises DataError, one process builds it for all."""
    try:
        return open_folder(folder)
    except DataError:
        with file_lock(folder.with_name(f".{folder.name}.lock")):
            try:
                return open_folder(folder)
            except DataError:
                return build(folder)


def unique_names(paths: Sequence[Path]) -> list[str]:
    """Return as many last parts of each path as distinguish all paths, and a number for equal paths."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} {number}" for number, path in enumerate(paths, start=1)]


def sync_files(folder: Path) -> None:
    """Force the files of a folder to disk; its folders were complete before."""
    for file in folder.iterdir():
        if file.is_file():
            _sync(file)
    _sync(folder)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files and folders of a name whose processes were killed, as far as possible."""
    if fcntl is None or not path.parent.is_dir():
        return
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9]+\.tmp")
    for partial in [one for one in path.parent.iterdir() if pattern.fullmatch(one.name)]:
        with suppress(OSError), _opened(partial) as descriptor:
            if not try_lock(descriptor):
                continue
            if partial.is_dir():
                shutil.rmtree(partial)
            else:
                partial.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file or folder to lock it; never a link, and without waiting for the other side of a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a temporary file or folder, where the system has locks."""
    if fcntl is None:
        yield
        return
    with _opened(path) as descriptor:
        try_lock(descriptor)
        yield


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """Yield an empty file that replaces `path` when the block ends, and is removed if the block raises."""
    partial = _temporary(path)
    try:
        _remove_abandoned(path)
        partial.touch()
        with _locked(partial):
            yield partial
            _sync(partial)
            partial.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise WriteError(path, error) from error
    finally:
        with suppress(OSError):  # the file or its folder may be missing
            partial.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
