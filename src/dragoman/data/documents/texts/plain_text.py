"""Plain text: paragraphs and lines as units."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, final

from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.span_document import EditedText, SpanText, SpanUnit
from dragoman.data.documents.text_edits import decode_text

MIN_WIDTH: Final = 40
"""Characters of the longest line from which on a paragraph may have been wrapped by a program."""
_LINE = re.compile(r"([^\S\r\n\v\f]*+)((?:\S++|[^\S\r\n]++(?=\S))*+)([^\S\r\n]*+)(\r\n|\r|\n|\Z)")


@final
class PlainText:
    """Text file in which a line is a unit, or several lines that a program has wrapped."""

    format = "text"

    def __init__(self, content: bytes, *, name: str = "") -> None:
        """Raise DataError if the text is not in UTF-8, or in UTF-16 with a byte order mark."""
        self._file = decode_text(content, name)
        self._text = SpanText(self._file.text, list(_paragraphs(self._file.text)))

    @property
    def units(self) -> Sequence[Unit]:
        """Return the lines and wrapped paragraphs."""
        return self._text.units

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the text with translations; empty lines, indentation and line ends stay."""
        return replace(self._file, text=self._text.fill(translations)).encode()


@final
class _Paragraph:
    """Lines that belong together, without the indentation of the first and the white space behind the last."""

    def __init__(self, lines: Sequence[re.Match[str]]) -> None:
        self.start, self.end = lines[0].start(2), lines[-1].end(2)
        self.unit = Unit(source=" ".join(line[2] for line in lines))
        self._width = max(len(line[1]) + len(line[2]) for line in lines)
        self._first = len(lines[0][1])
        self._indent = lines[1][1] if len(lines) > 1 else ""
        self._newline = lines[0][4] if len(lines) > 1 else ""

    def write(self, translation: str, text: EditedText) -> str:  # noqa: ARG002
        """Return the translation, wrapped as the paragraph was."""
        if not self._newline:
            return " ".join(translation.splitlines())
        lines = [""]
        free = self._width - self._first
        for word in translation.split():
            if lines[-1] and len(lines[-1]) + 1 + len(word) > free:
                lines.append("")
                free = self._width - len(self._indent)
            lines[-1] += f" {word}" if lines[-1] else word
        return f"{self._newline}{self._indent}".join(lines)


def _paragraphs(text: str) -> Iterator[SpanUnit]:
    lines: list[re.Match[str]] = []
    for line in _LINE.finditer(text):
        if line[2]:
            lines.append(line)
        if not line[2] or not line[4]:
            yield from _units(lines)
            lines = []
    yield from _units(lines)


def _units(lines: Sequence[re.Match[str]]) -> Iterator[SpanUnit]:
    """Yield one unit for lines that were wrapped, or else one for each."""
    if _is_wrapped(lines):
        yield from _with_letters(_Paragraph(lines))
        return
    for line in lines:
        yield from _with_letters(_Paragraph([line]))


def _with_letters(paragraph: _Paragraph) -> Iterator[SpanUnit]:
    if any(map(str.isalpha, paragraph.unit.source)):
        yield paragraph


def _is_wrapped(lines: Sequence[re.Match[str]]) -> bool:
    """Return whether the first word of each line did not fit in the line before, and all lines have one indentation.

    The first line may have another indentation.
    """
    width = max((len(line[1]) + len(line[2]) for line in lines), default=0)
    if width < MIN_WIDTH or len({line[1] for line in lines[1:]}) != 1:
        return False
    return all(
        len(one[1]) + len(one[2]) + 1 + len(following[2].split(maxsplit=1)[0]) > width
        for one, following in pairwise(lines)
    )
