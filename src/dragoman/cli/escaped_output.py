"""Standard streams in which control characters of texts, names and files are visible, without effect on a terminal.

A terminal obeys the control characters that it receives: they erase lines, change colors and titles, and reverse the
direction of text. Standard error is escaped everywhere, because it carries messages alone; standard output is escaped
on a terminal, and exact in pipes and files.
"""

from __future__ import annotations

import io
import re
import sys
from typing import Final, TextIO

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and line feed, and the characters that override the direction of text."""


def escape_controls(text: str) -> str:
    r"""Return a text with `\u001b` in place of a control character, which is valid in JSON too.

    >>> print(escape_controls("red \x1b[31m, erased \r, line\nfeed"))
    red \u001b[31m, erased \u000d, line
    feed
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class EscapingStream(io.TextIOWrapper):
    """Stream that takes the place of another one and escapes all control characters."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        stream.flush()
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.rich_proxied_file = stream
        """The stream for the control sequences of rich, whose consoles write to this attribute."""

    def write(self, text: str, /) -> int:
        super().write(escape_controls(text))
        return len(text)


def escape_standard_streams() -> None:
    """Escape all messages on standard error, and all output on a terminal."""
    if sys.stdout.isatty():
        sys.stdout = _escaped(sys.stdout)
    sys.stderr = _escaped(sys.stderr)


def _escaped(stream: TextIO) -> TextIO:
    return EscapingStream(stream) if type(stream) is io.TextIOWrapper else stream
