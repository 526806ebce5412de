"""Input from a pipe that may pause: streams return the results of the lines read so far while no more come."""

from __future__ import annotations

import select
import stat
import sys
from collections.abc import Iterator
from os import fstat
from typing import BinaryIO, TypeVar, final

_T = TypeVar("_T")
_BLOCK = 2**16


@final
class PipeReader:
    """Lines of a pipe, a terminal or a socket, which tells whether the next one is there."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._read = bytearray()
        self._searched = 0
        self._at_end = False

    def readline(self, size: int) -> bytes:
        """Return the next line with its line feed, or at most `size` bytes of it; nothing at the end."""
        while not self._has_line() and len(self._read) < size and not self._at_end:
            self._fill()
        end = self._read.find(b"\n", self._searched) + 1 or len(self._read)
        line = bytes(self._read[: min(end, size)])
        del self._read[: len(line)]
        self._searched = 0
        return line

    def is_ready(self, seconds: float) -> bool:
        """Return whether a line, or the end, comes within some seconds."""
        while not self._has_line() and not self._at_end:
            if not select.select([self._stream], [], [], seconds)[0]:
                return False
            self._fill()
        return True

    def _has_line(self) -> bool:
        """Return whether a line feed was read; bytes are searched once only."""
        found = self._read.find(b"\n", self._searched)
        self._searched = len(self._read) if found < 0 else found
        return found >= 0

    def _fill(self) -> None:
        block = self._stream.read1(_BLOCK)  # type: ignore[attr-defined]  # of buffered streams
        self._read += block
        self._at_end = not block


@final
class LiveLines(Iterator[_T]):
    """Items made of the lines of an input, which are ready when the input is."""

    def __init__(self, items: Iterator[_T], source: object) -> None:
        self._items = items
        self._source = source

    def __next__(self) -> _T:
        return next(self._items)

    def is_ready(self, seconds: float) -> bool:
        """Return whether the next item comes within some seconds; a file is always ready."""
        ask = getattr(self._source, "is_ready", None)
        return True if ask is None else ask(seconds)


def standard_input() -> BinaryIO | PipeReader:
    """Return standard input, as a `PipeReader` if it may pause."""
    stream = sys.stdin.buffer
    try:
        mode = fstat(stream.fileno()).st_mode
    except OSError:  # no file of the operating system
        return stream
    return stream if stat.S_ISREG(mode) or sys.platform == "win32" else PipeReader(stream)
