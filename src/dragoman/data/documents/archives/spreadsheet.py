"""XLSX: the texts of cells, of comments, and of text boxes and charts.

Source: ECMA-376-1 (Office Open XML), chapter 18, SpreadsheetML. Formulas, numbers, names of sheets and everything else
keep their bytes. A text that a formula or a rule of the file compares with, and the head of a table or of a pivot
table, whose name another part repeats, stay as they are, so that the file computes what it did.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from dragoman.data.documents.archives.archive import Archive
from dragoman.data.documents.archives.ooxml import archive_units, drawing_units, fill_archive, text_parts
from dragoman.data.documents.archives.xml_syntax import (
    Element,
    decode_xml,
    escape_xml,
    find_elements,
    prefixes,
    unescape_xml,
)
from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.inline_units import read_fragment
from dragoman.data.documents.span_document import SpanText
from dragoman.data.documents.text_edits import Edit, EditedDocument, Entry, TextFile
from dragoman.errors import DataError

_MAIN: Final = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",
)
_FORMULA = re.compile(r"<(?:\w+:)?(f|formula|formula1|formula2|definedName)\b[^<>]*(?<!/)>([^<]*)<")
_LITERAL = re.compile(r'"((?:[^"]|"")*)"')
_COLUMN = re.compile(r"""<(?:\w+:)?(?:tableColumn|cacheField)\b[^<>]*?\sname\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_FIXED_PARTS = re.compile(r"xl/(?:workbook|worksheets/[^/]+|tables/[^/]+|pivotCache/pivotCacheDefinition\d*)\.xml")
"""Members with formulas, and with the names of columns."""
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@final
class Workbook:
    """XLSX file with the texts of its cells as units."""

    format = "xlsx"

    def __init__(self, content: bytes, *, name: str = "") -> None:
        """Raise DataError if the archive or one of its texts is damaged."""
        self._archive = Archive(content, name=name)
        fixed = frozenset(_fixed_texts(self._archive))
        self._parts: dict[str, SpanText | CellTexts] = {}
        for path in text_parts(self._archive, "xlsx", name):
            text = decode_xml(self._archive.read(path), f"{name}: {path}")
            if path.startswith(("xl/drawings/", "xl/charts/", "xl/diagrams/")):
                self._parts[path] = SpanText(text, [*drawing_units(text)])
            else:
                self._parts[path] = CellTexts(text, fixed)
        if not self._parts:
            raise DataError(f"{name}: has no sheet of an XLSX file. Check that it is one.")

    @property
    def units(self) -> Sequence[Unit]:
        """Return the texts of all cells, each once, and of comments, text boxes and charts."""
        return archive_units(self._parts)

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the file with translations; parts without a changed text keep their bytes."""
        return fill_archive(self._archive, self._parts, translations)


def _fixed_texts(archive: Archive) -> Iterator[str]:
    """Yield the texts that may not change: those in formulas, in lists of allowed values, and the heads of tables."""
    for path in archive.names:
        if _FIXED_PARTS.fullmatch(path):
            text = archive.read(path).decode("utf-8", "replace")
            for column in _COLUMN.finditer(text):
                yield _unescape(html.unescape(column[1] or column[2] or "")).strip()
            for formula in _FORMULA.finditer(text):
                for literal in _LITERAL.findall(html.unescape(formula[2])):
                    yield literal.replace('""', '"').strip()
                    if formula[1] == "formula1":
                        yield from (one.strip() for one in literal.split(","))


@final
class CellTexts:
    """Part of a workbook with texts: its shared strings, a sheet with strings of its own, or comments."""

    def __init__(self, text: str, fixed: frozenset[str]) -> None:
        self.text = text
        found = prefixes(text)
        entries = [entry for uri in _MAIN if uri in found for entry in _entries(text, found[uri], fixed)]
        self._document = EditedDocument("xlsx", TextFile(text), entries)

    @property
    def units(self) -> Sequence[Unit]:
        """Return the texts, of which each line with formats of its own is one."""
        return self._document.units

    def fill(self, translations: Sequence[UnitTranslation | None]) -> str:
        """Return the part with translations."""
        return self._document.fill(translations).decode()


def _entries(text: str, x: str, fixed: frozenset[str]) -> Iterator[Entry]:
    outer = frozenset(name for name in (f"{x}si", f"{x}is", f"{x}comment") if f"<{name}" in text)
    for element in find_elements(text, outer) if outer else ():
        texts = element.find(f"{x}text") if element.name == f"{x}comment" else (element,)
        for one in texts:
            names = {child.name for child in one.children}
            entry = _plain(text, one, x, fixed) if f"{x}t" in names else _rich(text, one, x, fixed)
            if entry is not None:
                yield entry


def _plain(text: str, element: Element, x: str, fixed: frozenset[str]) -> Entry | None:
    """Return the entry of a text with one format; None where there is nothing to translate."""
    inner = next(one for one in element.children if one.name == f"{x}t")
    raw = text[inner.inner_start : inner.inner_end]
    source = _unescape(unescape_xml(raw)).strip()
    if not _is_text(source) or source in fixed or "<" in raw:
        return None
    start = inner.inner_start + len(raw) - len(raw.lstrip())
    end = inner.inner_end - len(raw) + len(raw.rstrip())
    unit = Unit(source=source)

    def write(new: Sequence[UnitTranslation | None]) -> Iterator[Edit]:
        [one] = new
        if one is not None and one.text != source:
            yield Edit(start, end, _escape(one.text))
            yield from _without_readings(element, x)

    return Entry((unit,), write)


def _without_readings(element: Element, x: str) -> Iterator[Edit]:
    """Yield the edits that remove how a Japanese text is read, which a translation has not."""
    for one in element.children:
        if one.name in (f"{x}rPh", f"{x}phoneticPr"):
            yield Edit(one.start, one.end, "")


@final
@dataclass(frozen=True, slots=True)
class _Segment:
    """Characters of one format, which is the element of the properties of their run."""

    format: str
    text: str


@final
class _Line:
    """Line of a text with several formats."""

    def __init__(self, newline: _Segment, segments: Sequence[_Segment]) -> None:
        self.newline = newline
        """Line break before the line, which the first line has not."""
        self.segments = [*_joined(segments)]
        letters: Counter[str] = Counter()
        for one in self.segments:
            letters[one.format] += len("".join(one.text.split()))
        self._base = min(letters, key=lambda one: (-letters[one], one))
        self._formats = [one.format for one in self.segments if one.format != self._base]
        fragment = self._fragment()
        body = fragment.strip()
        place = fragment.index(body)
        self._lead, self._tail = fragment[:place], fragment[place + len(body) :]
        is_text = any(_is_text(one.text) for one in self.segments)
        self.unit = Unit(source=body, markup="xml" if self._formats else None) if is_text else None

    def _fragment(self) -> str:
        if not self._formats:
            return "".join(one.text for one in self.segments)
        parts: list[str] = []
        number = 0
        for one in self.segments:
            escaped = html.escape(one.text, quote=False)
            number += one.format != self._base
            parts.append(escaped if one.format == self._base else f'<g id="{number}">{escaped}</g>')
        return "".join(parts)

    def render(self, translation: str) -> list[_Segment]:
        """Return the segments of a translation."""
        if not self._formats:
            return [_Segment(self._base, f"{self._lead}{translation}{self._tail}")]
        result, stack = list[_Segment](), [self._base]
        for kind, value in read_fragment(f"{self._lead}{translation}{self._tail}"):
            if kind == "text":
                result.append(_Segment(stack[-1], value))
            elif kind == "open":
                number = int(value)
                stack.append(self._formats[number - 1] if 0 < number <= len(self._formats) else stack[-1])
            elif kind == "close" and len(stack) > 1:
                stack.pop()
        return result


def _rich(text: str, element: Element, x: str, fixed: frozenset[str]) -> Entry | None:
    """Return the entry of a text with several formats, of which each line is a unit."""
    segments = [_segment(text, run, x) for run in element.children if run.name == f"{x}r"]
    if "".join(one.text for one in segments).strip() in fixed:
        return None
    lines = _split_lines(segments)
    units = tuple(line.unit for line in lines if line.unit is not None)
    if not units:
        return None

    def write(new: Sequence[UnitTranslation | None]) -> Iterator[Edit]:
        given = iter(zip(units, new, strict=True))
        written: list[_Segment] = []
        changed = False
        for line in lines:
            written.append(line.newline)
            unit, one = next(given) if line.unit is not None else (None, None)
            is_new = unit is not None and one is not None and one.text != unit.source
            written += line.render(one.text) if is_new and one is not None else line.segments
            changed |= is_new
        if changed:
            yield Edit(element.inner_start, element.inner_end, "".join(_runs(written, x)))

    return Entry(units, write)


def _segment(text: str, run: Element, x: str) -> _Segment:
    properties = next((text[one.start : one.end] for one in run.children if one.name == f"{x}rPr" and one.children), "")
    inner = (text[one.inner_start : one.inner_end] for one in run.children if one.name == f"{x}t")
    return _Segment(properties, "".join(_unescape(unescape_xml(one)) for one in inner))


def _split_lines(segments: Iterable[_Segment]) -> list[_Line]:
    lines: list[tuple[_Segment, list[_Segment]]] = [(_Segment("", ""), [])]
    for one in segments:
        first, *others = one.text.split("\n")
        lines[-1][1].append(_Segment(one.format, first))
        lines += [(_Segment(one.format, "\n"), [_Segment(one.format, text)]) for text in others]
    return [_Line(newline, line) for newline, line in lines]


def _joined(segments: Iterable[_Segment]) -> Iterator[_Segment]:
    """Yield segments of which two next to each other have different formats, and all have more than white space."""
    last = _Segment("", "")
    for one in segments:
        if last.format == one.format or not one.text.strip():
            last = _Segment(last.format if last.text else one.format, last.text + one.text)
        elif not last.text.strip():
            last = _Segment(one.format, last.text + one.text)
        else:
            yield last
            last = one
    yield last


def _runs(segments: Iterable[_Segment], x: str) -> Iterator[str]:
    for one in _joined(segments):
        yield f'<{x}r>{one.format}<{x}t xml:space="preserve">{_escape(one.text)}</{x}t></{x}r>'


def _is_text(source: str) -> bool:
    return any(map(str.isalpha, source))


def _unescape(text: str) -> str:
    """Return a text without the escapes of control characters; carriage returns are left out."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text).replace("\r", "")


def _escape(text: str) -> str:
    """Return a text as it is written in a cell: with escapes of control characters, and of what looks like one."""
    escaped = _CONTROL.sub(lambda found: f"_x{ord(found[0]):04X}_", _ESCAPE.sub(r"_x005F_x\1_", text))
    return escape_xml(escaped)
