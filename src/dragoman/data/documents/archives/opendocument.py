"""ODT, ODP and ODS: the paragraphs of the content, and of headers and footers; of sheets, the cells with texts.

Source: OASIS Open Document Format for Office Applications 1.3, part 3, chapters 5 to 7 (text content).
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, final

from dragoman.data.documents.archives.archive import Archive
from dragoman.data.documents.archives.ooxml import fill_archive
from dragoman.data.documents.archives.xml_syntax import (
    Element,
    decode_xml,
    escape_xml,
    find_elements,
    prefixes,
    unescape_xml,
)
from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.inline_units import WHITE, Piece, split_pieces, text_pieces
from dragoman.data.documents.span_document import InlineSpan, SpanText
from dragoman.errors import DataError

Format = Literal["odt", "odp", "ods"]
_TEXT: Final = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_OFFICE: Final = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_TABLE: Final = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
_PARTS: Final = {"odt": ("content.xml", "styles.xml"), "odp": ("content.xml",), "ods": ("content.xml",)}
"""Members with text: the styles of a text document have its headers and footers, those of slides only hints."""
_MANIFEST: Final = "META-INF/manifest.xml"
_FORMULA = re.compile(r"""\s(?:[\w-]+:)?(?:formula|condition|expression)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_LITERAL = re.compile(r'"((?:[^"]|"")*)"')
_TEXT_CELL = re.compile(r"""\s(?:[\w-]+:)?value-type\s*=\s*["']string["']""")
_COMPUTED = re.compile(r"\s(?:[\w-]+:)?(?:formula|string-value)\s*=")
_SPACES = re.compile(f"[{WHITE}]+")


@final
class OpenDocument:
    """ODT, ODP or ODS file with its paragraphs as units.

    Of a spreadsheet, formulas, numbers and texts with which formulas and rules compare stay as they are.
    """

    def __init__(self, content: bytes, *, format: Format, name: str = "") -> None:  # noqa: A002
        """Raise DataError if the archive or its text is damaged."""
        self.format = format
        self._archive = Archive(content, name=name)
        if "content.xml" not in self._archive.names:
            raise DataError(f"{name}: has no content.xml. Check that it is an {format.upper()} file.")
        if _MANIFEST in self._archive.names and b"encryption-data" in self._archive.read(_MANIFEST):
            raise DataError(f"{name}: is encrypted, and cannot be read. Save it without a password.")
        self._parts: dict[str, SpanText] = {}
        for path in _PARTS[format]:
            if path in self._archive.names:
                text = decode_xml(self._archive.read(path), f"{name}: {path}")
                spans = _cell_spans(text) if format == "ods" else _spans(text)
                self._parts[path] = SpanText(text, [*spans])

    @property
    def units(self) -> Sequence[Unit]:
        """Return the paragraphs of all parts, and their parts between tabs and line breaks."""
        return [unit for part in self._parts.values() for unit in part.units]

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the file with translations; everything else keeps its bytes."""
        return fill_archive(self._archive, self._parts, translations)


def _spans(text: str) -> Iterator[InlineSpan]:
    found = prefixes(text)
    if _TEXT not in found:
        return
    names = _Names(found[_TEXT], found.get(_OFFICE, "office:"))
    for outer in find_elements(text, names.paragraphs | names.skipped):
        if outer.name in names.paragraphs:
            yield from _paragraph_spans(text, [outer], names)


def _cell_spans(text: str) -> Iterator[InlineSpan]:
    """Yield the paragraphs of the cells of a spreadsheet that are texts, and of the text boxes on it."""
    found = prefixes(text)
    if _TEXT not in found or _TABLE not in found:
        return
    names = _Names(found[_TEXT], found.get(_OFFICE, "office:"))
    formulas = (html.unescape(one[1] or one[2] or "") for one in _FORMULA.finditer(text))
    fixed = {literal.replace('""', '"').strip() for one in formulas for literal in _LITERAL.findall(one)}
    cell = f"{found[_TABLE]}table-cell"
    for outer in find_elements(text, names.paragraphs | names.skipped | {cell}):
        tag = text[outer.start : outer.inner_start]
        is_text = outer.name != cell or (_TEXT_CELL.search(tag) is not None and not _COMPUTED.search(tag))
        paragraphs = [outer] if outer.name in names.paragraphs else [*_nested(outer, names)] if is_text else []
        for span in _paragraph_spans(text, paragraphs[::-1], names):
            if span.unit.source.strip() not in fixed:
                yield span


def _paragraph_spans(text: str, stack: list[Element], names: "_Names") -> Iterator[InlineSpan]:
    """Yield the units of paragraphs, of which the last one is the first, and of those inside of them."""
    while stack:
        paragraph = stack.pop()
        pieces: list[Piece] = []
        for one in _pieces(text, paragraph, names):
            if isinstance(one, Piece):
                pieces.append(one)
            else:
                stack.append(one)
        yield from (InlineSpan(unit, escape_xml) for unit in split_pieces(pieces))


@final
class _Names:
    """Names of elements with the prefixes that a file uses."""

    def __init__(self, t: str, office: str) -> None:
        self.paragraphs = frozenset([f"{t}p", f"{t}h"])
        self.inline = frozenset(f"{t}{name}" for name in ("span", "a", "meta"))
        self.breaks = frozenset([f"{t}line-break", f"{t}tab"])
        self.hidden = frozenset([f"{office}annotation", f"{t}tracked-changes", f"{t}ruby"])
        """Elements whose paragraphs are not translated: comments of reviewers."""
        self.skipped = frozenset([f"{t}tracked-changes", f"{office}annotation"])
        """Elements around paragraphs that are not translated either."""


def _pieces(text: str, parent: Element, names: _Names) -> Iterator[Piece | Element]:
    """Yield the pieces of a paragraph, and the paragraphs inside of its codes, such as those of a footnote."""
    for one in parent.children:
        if one.name == "":
            raw = text[one.start : one.end]
            if raw.startswith("<!"):
                yield Piece("void", one.start, one.end)
            else:
                yield from text_pieces(raw, one.start, _decode)
        elif one.name in names.inline and _is_break(text, one, names):
            yield Piece("break", one.start, one.end)
        elif one.name in names.inline and one.inner_end < one.end:
            name = f"{one.name} {one.start}"
            yield Piece("open", one.start, one.inner_start, name=name)
            yield from _pieces(text, one, names)
            yield Piece("close", one.inner_end, one.end, name=name)
        else:
            yield Piece("break" if one.name in names.breaks else "void", one.start, one.end)
            if one.name not in names.hidden:
                yield from _nested(one, names)


def _is_break(text: str, span: Element, names: _Names) -> bool:
    """Return whether a span contains a break and nothing else, as LibreOffice formats line breaks of slides."""
    inside = [one for one in span.children if one.name or text[one.start : one.end].strip(WHITE)]
    return len(inside) == 1 and inside[0].name in names.breaks


def _nested(one: Element, names: _Names) -> Iterator[Element]:
    stack = one.children[::-1]
    while stack:
        child = stack.pop()
        if child.name in names.paragraphs:
            yield child
        elif child.name not in names.hidden:
            stack.extend(reversed(child.children))


def _decode(raw: str) -> str:
    return unescape_xml(_SPACES.sub(" ", raw))
