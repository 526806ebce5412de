"""Simulation of power cuts: a disk that keeps only what a program forced to it."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

Listing = dict[str, int]
"""Inode of each name in a folder."""


@dataclass(frozen=True)
class DiskState:
    """Files and folders as they were when they were last forced to disk, by inode."""

    root: int
    files: dict[int, bytes] = field(default_factory=dict)
    folders: dict[int, Listing] = field(default_factory=dict)

    def restore(self, path: Path) -> None:
        """Write the state after a power cut into a new folder; a file that was never forced to disk is empty."""
        self._restore(self.root, path)

    def _restore(self, inode: int, path: Path) -> None:
        if inode not in self.folders:
            path.write_bytes(self.files.get(inode, b""))
            return
        path.mkdir()
        for name, inner in self.folders[inode].items():
            self._restore(inner, path / name)


@contextmanager
def recorded_disk(root: Path) -> Iterator[list[DiskState]]:
    """Record the state of the disk below a folder after every `fsync`; what the folder contains before is on disk.

    No process but this one may write. Names that were not forced to disk are missing afterwards, also those of folders.
    """
    state = DiskState(root.stat().st_ino)
    kept_open, states = list[int](), list[DiskState]()  # an inode of an open file is not used again
    original, lock = os.fsync, threading.Lock()  # checkpoints are written by a thread

    def record(path: Path, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            state.folders[status.st_ino] = {entry.name: entry.inode() for entry in os.scandir(path)}
            for entry in os.scandir(path):
                if entry.is_dir():
                    state.folders.setdefault(entry.inode(), {})
        else:
            state.files[status.st_ino] = path.read_bytes()

    def fsync(descriptor: int) -> None:
        original(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(root):
            return
        with lock:
            kept_open.append(os.dup(descriptor))
            record(path, os.fstat(descriptor))
            states.append(DiskState(state.root, dict(state.files), dict(state.folders)))

    for path in [root, *root.rglob("*")]:
        record(path, path.stat())
    try:
        with mock.patch("os.fsync", fsync):
            yield states
    finally:
        for descriptor in kept_open:
            os.close(descriptor)
