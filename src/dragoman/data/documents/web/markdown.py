"""Markdown: headings, paragraphs, list items and cells of tables as units, with emphasis and links as inline codes.

Source: CommonMark 0.31 and GitHub Flavored Markdown, read by markdown-it. Code, HTML blocks, front matter and the
addresses of links stay as they are.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dragoman.data.documents.document import Markup, Unit, UnitTranslation
from dragoman.data.documents.inline_units import InlineUnit, Piece, split_pieces
from dragoman.data.documents.span_document import EditedText, SpanText, SpanUnit, ValueSpan
from dragoman.data.documents.text_edits import decode_text
from dragoman.data.documents.web.markdown_inline import inline_pieces, inline_tokens, markdown_parser

MAX_INLINE: Final = 20_000
"""Characters of a block from which on it stays as it is: the search for emphasis may take quadratic time."""
_FRONT_MATTER = re.compile(
    r"\A(?P<mark>---|\+\+\+)[ \t]*(?:\r\n|\r|\n)(?:.*?(?:\r\n|\r|\n))??(?P=mark)[ \t]*(?=[\r\n]|\Z)", re.DOTALL
)
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_BLOCK_START = re.compile(r"(?:[-+*>=|:]|#{1,6}(?:\s|\Z)|\d{1,9}[.)]|~~~|```|<|\[)")
"""What a line of a paragraph may not begin with when it is wrapped."""
_LINE_START = re.compile(r"\A(\d{0,9})((?<=\d)[.)]|(?<!\d)(?:[-+>=|:~]|#{1,6}(?=\s|\Z)))")
"""Characters that would begin another block, and the number before them."""
_SPECIAL = re.compile(
    r"[`*\[\]]|\\(?=[!-/:-@\[-`{-~\s]|\Z)|(?<![^\W_])_|_(?![^\W_])|~~|<(?=[A-Za-z/!?])|&(?=#?\w{1,31};)"
)
"""Characters that would be markup: an underscore inside of a word is none."""
_SPACE, _BREAK = "\x00", "\x01"
"""Places in a rendered unit where a line may end, and where one ends."""


@final
class Markdown:
    """Markdown file with the text of its blocks as units."""

    format = "markdown"

    def __init__(self, content: bytes, *, name: str = "") -> None:
        """Raise DataError if the file is not in UTF-8 or UTF-16."""
        self._file = decode_text(content, name)
        self._text = SpanText(self._file.text, list(_Blocks(self._file.text).units()))

    @property
    def units(self) -> Sequence[Unit]:
        """Return the texts of the blocks."""
        return self._text.units

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the file with translations; everything else stays byte for byte."""
        return replace(self._file, text=self._text.fill(translations)).encode()


@final
@dataclass(frozen=True)
class _Inline:
    """Inline content of a block: its text without prefixes such as `> `, and the place of each line in the file."""

    raw: str
    lines: tuple[tuple[int, int], ...]
    """Place in `raw` and place in the file of each line."""
    is_cell: bool
    newline: str
    """Line end and prefix of the lines after the first one."""

    def place(self, position: int, *, is_end: bool = False) -> int:
        """Return the place in the file of a position; an end belongs to the line of the character before it."""
        for begin, place in reversed(self.lines):
            if begin < position or (begin == position and not is_end) or begin == 0:
                return place + position - begin
        raise AssertionError(position)


class _Blocks:
    """Finds the blocks of a file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [(line.start(1), line[1], line[2]) for line in _LINE.finditer(text)]
        self._parser = markdown_parser()
        front = _FRONT_MATTER.match(text)
        hidden = re.sub(r"[^\r\n]", "", front[0]) if front else ""
        environment: dict[str, Any] = {}
        self._tokens = self._parser.parse(hidden + text[len(front[0]) if front else 0 :], environment)
        self._references = environment.get("references", {})
        self._cursor = (0, 0)
        """Line of the last cell of a table, and the place behind it."""

    def units(self) -> Iterator[SpanUnit]:
        for number, token in enumerate(self._tokens):
            if token.type != "inline" or token.map is None or len(token.content) > MAX_INLINE:
                continue
            kind = self._tokens[number - 1].type
            inline = self._locate(token, is_cell=kind in ("th_open", "td_open"))
            if inline is not None:
                yield from _inline_units(inline, self._parser, self._references, can_wrap=kind == "paragraph_open")

    def _locate(self, token: Token, *, is_cell: bool) -> _Inline | None:
        """Return where the content of a block is in the file; None if that cannot be told."""
        assert token.map is not None
        first = token.map[0]
        if is_cell:
            return self._locate_cell(token.content, first)
        found: list[tuple[int, int]] = []
        position = 0
        prefix = ""
        for number, content in enumerate(token.content.split("\n"), start=first):
            start, line, newline = self._lines[number]
            if line.endswith(content):
                column = len(line) - len(content)
            elif line.rstrip().endswith(content.rstrip()):
                column = len(line.rstrip()) - len(content.rstrip())
            else:
                column = line.find(content.strip())
            if column < 0 or not content.strip() or line[column : column + len(content)] != content:
                return None
            if number == first:
                prefix = newline
            elif number == first + 1:
                prefix += line[:column]
            found.append((position, start + column))
            position += len(content) + 1
        return _Inline(token.content, tuple(found), is_cell=False, newline=prefix)

    def _locate_cell(self, content: str, number: int) -> _Inline | None:
        start, line, _ = self._lines[number]
        line_number, cursor = self._cursor
        escaped = content.replace("|", "\\|")
        column = line.find(escaped, cursor if line_number == number else 0) if content else -1
        if column < 0:
            return None
        self._cursor = (number, column + len(escaped))
        return _Inline(escaped, ((0, start + column),), is_cell=True, newline="")


def _inline_units(
    inline: _Inline, parser: MarkdownIt, references: dict[str, Any], *, can_wrap: bool
) -> Iterator[SpanUnit]:
    """Yield the units of a block, and the descriptions of the images in it."""
    pieces = inline_pieces(parser, inline.raw, references)
    for unit in split_pieces(pieces):
        yield _MarkdownUnit(unit, inline, parser, references, can_wrap=can_wrap)
    for piece in pieces:
        description = re.match(r"!\[([^\[\]\\\n]*)\](?=\(|\[[^\]])", inline.raw[piece.start : piece.end])
        if piece.name == "image" and description and any(map(str.isalpha, description[1])):
            start = inline.place(piece.start + 2)
            yield ValueSpan(start, start + len(description[1]), description[1], _escape_description, context="alt")


class _MarkdownUnit:
    """Text of a block, or the part of one up to a hard line break."""

    def __init__(
        self, unit: InlineUnit, inline: _Inline, parser: MarkdownIt, references: dict[str, Any], *, can_wrap: bool
    ) -> None:
        self._unit, self._inline, self._parser, self._references = unit, inline, parser, references
        self.start, self.end = inline.place(unit.start), inline.place(unit.end, is_end=True)
        self._begins_line = inline.raw[: unit.start].rstrip(" ")[-1:] in ("", "\n")
        lines = inline.raw.split("\n")
        self._width = max(map(len, lines)) if can_wrap and len(lines) > 1 else 0
        markup: Markup | None = "xml" if unit.has_codes else None
        self.unit = Unit(source=unit.source, markup=markup)

    def write(self, translation: str, text: EditedText) -> str:
        """Return the translation in Markdown, with HTML tags where marks of emphasis would not be read as such."""
        fragment = _outside(translation.strip()) if self._unit.has_codes else translation.strip()
        for style in ("as it is", "asterisks", "tags"):
            written, expected = self._render(fragment, text, style)
            if self._codes(written.replace(_SPACE, " ").replace(_BREAK, " ")) == expected:
                break
        return self._wrap(written)

    def _render(self, translation: str, text: EditedText, style: str) -> tuple[str, Counter[str]]:
        expected: Counter[str] = Counter()

        is_start = self._begins_line

        def code(piece: Piece) -> str:
            nonlocal is_start
            is_start = False
            expected[_code_name(piece)] += piece.kind != "close"
            raw = self._inline.raw[piece.start : piece.end]
            if piece.kind == "close" and piece.text:
                return f"][{' '.join(piece.text.split())}]"
            if piece.kind == "break":
                return raw.rstrip("\r\n ") + ("  " if not raw.strip() else "") + _BREAK
            if piece.name in ("strong", "em") and style != "as it is":
                return _as_tag(piece) if style == "tags" else raw.replace("_", "*")
            if "\n" in raw:
                return " ".join(raw.split())
            return text.slice(self._inline.place(piece.start), self._inline.place(piece.end, is_end=True))

        def characters(translated: str) -> str:
            nonlocal is_start
            escaped = _escape(translated, is_cell=self._inline.is_cell)
            if is_start:
                escaped = _LINE_START.sub(r"\1\\\2", escaped, count=1)
            is_start = False
            return _SPACE.join(re.split(r"[ \t\r\n\x00\x01]+", escaped))

        written = self._unit.render(translation, code, characters)
        expected.pop("", None)
        if style == "tags":
            expected.pop("strong", None)
            expected.pop("em", None)
        return written, +expected

    def _codes(self, written: str) -> Counter[str]:
        """Return how many codes of each kind Markdown reads in a text."""
        tokens = inline_tokens(self._parser, written, self._references)
        return Counter(_TOKEN_CODES[token.type] for token in tokens if token.type in _TOKEN_CODES)

    def _wrap(self, written: str) -> str:
        """Return a text with lines as long as they were, none of which begins like another block."""
        if not self._width:
            return written.replace(_SPACE, " ").replace(_BREAK, self._inline.newline or " ")
        lines = [""]
        for word in written.split(_SPACE):
            fits = len(lines[-1]) + 1 + len(word) <= self._width
            if lines[-1] and (fits or _BLOCK_START.match(word)):
                lines[-1] += f" {word}"
            elif lines[-1]:
                lines.append(word)
            else:
                lines[-1] = word
        return self._inline.newline.join(lines).replace(_BREAK, self._inline.newline)


_TOKEN_CODES: Final = {
    "link_open": "link",
    "code_inline": "code",
    "image": "image",
    "strong_open": "strong",
    "em_open": "em",
    "s_open": "s",
}


def _code_name(piece: Piece) -> str:
    """Return the name of the token that a piece is read as; nothing for a token that is not counted."""
    name = piece.name.split(" ")[0]
    return name if name in ("code", "link", "image", "strong", "em", "s") else ""


def _outside(fragment: str) -> str:
    """Return a fragment with white space outside of its tags: emphasis neither begins nor ends with a space."""
    opened = re.sub(r"((?:<g [^<>]*+>)++)(\s*+)", r"\2\1", fragment)
    return re.sub(r"(\s++)((?:</g>)*+)", r"\2\1", opened)


def _as_tag(piece: Piece) -> str:
    return f"<{'/' if piece.kind == 'close' else ''}{piece.name}>"


def _escape(text: str, *, is_cell: bool) -> str:
    escaped = _SPECIAL.sub(lambda found: f"\\{found[0]}", text)
    return re.sub(r"(?<!\\)\|", r"\\|", escaped) if is_cell else escaped


def _escape_description(text: str) -> str:
    return _escape(" ".join(text.split()), is_cell=True)
