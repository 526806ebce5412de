"""Outputs and references as files: one sentence a line. An empty line is an empty output, which is scored as such."""

import io
import sys
from pathlib import Path
from typing import BinaryIO

from dragoman.errors import DataError

STANDARD_INPUT = "-"


def read_segments(name: str) -> list[str]:
    """The lines of a UTF-8 file, or of standard input for `-`, without line ends; a byte order mark is dropped.

    Only LF and CRLF end a line, so that a form feed or U+2028 inside a sentence cannot shift those after it. Raises
    DataError when the file cannot be read, is not UTF-8 (naming the line) or is empty.
    """
    try:
        if name == STANDARD_INPUT:
            return _lines(sys.stdin.buffer, name="standard input")
        with Path(name).open("rb") as stream:
            return _lines(stream, name=name)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error}); check the path") from error


def _lines(stream: BinaryIO | io.BufferedIOBase, *, name: str) -> list[str]:
    lines = []
    for number, raw in enumerate(stream, start=1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: is not UTF-8 ({error.reason}); convert the file, "
                "for example with: iconv -f ISO-8859-1 -t UTF-8"
            ) from error
        lines.append(text.removesuffix("\n").removesuffix("\r"))
    if not lines:
        raise DataError(f"{name}: is empty; give a file with one sentence a line")
    return lines
