"""DOCX and PPTX: the paragraphs of the parts that readers see, those of SmartArt diagrams and of charts among them.

A diagram has its texts twice: in its data, and in a drawing that programs show as long as nobody changes the diagram.
Sources: ECMA-376-1 (Office Open XML), ECMA-376-2 (Open Packaging Conventions). Parts are found by their content type.
"""

import html
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, Protocol, final

from dragoman.data.documents.archives.archive import Archive
from dragoman.data.documents.archives.runs import RunNames, RunUnit, read_paragraphs
from dragoman.data.documents.archives.xml_syntax import check_xml, decode_xml, prefixes
from dragoman.data.documents.document import Unit, UnitTranslation, check_count
from dragoman.data.documents.span_document import SpanText
from dragoman.errors import DataError

Format = Literal["docx", "pptx"]
_CONTENT_TYPES: Final = "[Content_Types].xml"
_OVERRIDE = re.compile(r"<(?:\w+:)?Override\b[^>]*>")
_GRAPHICS: Final = r"diagrams/(?:data|drawing)\d+|charts/chart\d+"
_DEFAULT_PARTS: Final = {
    "docx": re.compile(rf"word/(?:document|header\d*|footer\d*|footnotes|endnotes|{_GRAPHICS})\.xml"),
    "pptx": re.compile(rf"ppt/(?:slides/slide\d+|notesSlides/notesSlide\d+|{_GRAPHICS})\.xml"),
    "xlsx": re.compile(rf"xl/(?:sharedStrings|worksheets/sheet\d+|comments\d+|drawings/drawing\d+|{_GRAPHICS})\.xml"),
}
"""Paths of translated parts where the content types do not list them."""
_TYPES: Final = {
    "docx": re.compile(
        r"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml\.|ms-word\.)"
        r"(?:document|template|(?:document|template)\.macroEnabled|header|footer|footnotes|endnotes)(?:\.main)?(?:Template)?\+xml"
    ),
    "pptx": re.compile(r"application/vnd\.openxmlformats-officedocument\.presentationml\.(?:slide|notesSlide)\+xml"),
    "xlsx": re.compile(
        r"application/vnd\.openxmlformats-officedocument\.(?:spreadsheetml\.(?:sharedStrings|worksheet|comments)"
        r"|drawing)\+xml"
    ),
}
_GRAPHIC_TYPES: Final = re.compile(
    r"application/vnd\.openxmlformats-officedocument\.drawingml\.(?:diagramData|chart)\+xml"
    r"|application/vnd\.ms-office\.drawingml\.diagramDrawing\+xml"
)
_CACHED = re.compile(r"(?:word|ppt|xl)/diagrams/drawing\d*\.xml")
"""Drawings of diagrams, whose texts are those of their data."""
_WORD: Final = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_DRAWING: Final = (
    "http://schemas.openxmlformats.org/drawingml/2006/main",
    "http://purl.oclc.org/ooxml/drawingml/main",
)


@final
class OfficeDocument:
    """DOCX or PPTX file with the paragraphs of its text as units."""

    def __init__(self, content: bytes, *, format: Format, name: str = "") -> None:  # noqa: A002
        """Raise DataError if the archive or one of its texts is damaged."""
        self.format = format
        self._archive = Archive(content, name=name)
        self._parts: dict[str, SpanText] = {}
        for path in text_parts(self._archive, format, name):
            text = decode_xml(self._archive.read(path), f"{name}: {path}")
            self._parts[path] = SpanText(text, [*_units(text)])
        if not self._parts:
            raise DataError(f"{name}: has no text of a {format.upper()} file. Check that it is one.")

    @property
    def units(self) -> Sequence[Unit]:
        """Return the paragraphs of all parts, and their parts between tabs and line breaks."""
        return archive_units(self._parts)

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the file with translations; parts without a changed paragraph keep their bytes."""
        return fill_archive(self._archive, self._parts, translations)


class TextPart(Protocol):
    """Member of an archive with texts."""

    @property
    def text(self) -> str:
        """Return the characters of the member."""
        ...

    @property
    def units(self) -> Sequence[Unit]:
        """Return its texts."""
        ...

    def fill(self, translations: Sequence[UnitTranslation | None]) -> str:
        """Return its characters with translations."""
        ...


def archive_units(parts: Mapping[str, TextPart]) -> list[Unit]:
    """Return the texts of all parts, but in the drawing of a diagram those that its data has, too."""
    return [unit for _, unit, is_copy in _numbered_units(parts) if not is_copy]


def _numbered_units(parts: Mapping[str, TextPart]) -> Iterator[tuple[str, Unit, bool]]:
    """Yield the path and the texts of all parts, and whether each is the copy of a text of a diagram."""
    known: set[tuple[str, str | None]] = set()
    for path, part in parts.items():
        for unit in part.units:
            key = unit.source, unit.markup
            yield path, unit, _CACHED.fullmatch(path) is not None and key in known
            if "/diagrams/" in path:
                known.add(key)


def fill_archive(
    archive: Archive, parts: Mapping[str, TextPart], translations: Sequence[UnitTranslation | None]
) -> bytes:
    """Return an archive in which texts have translations, given in the order of `archive_units`."""
    check_count(translations, archive_units(parts))
    each: dict[str, list[UnitTranslation | None]] = {path: [] for path in parts}
    of_diagrams: dict[tuple[str, str | None], UnitTranslation | None] = {}
    following = iter(translations)
    for path, unit, is_copy in _numbered_units(parts):
        key = unit.source, unit.markup
        translation = of_diagrams[key] if is_copy else next(following)
        each[path].append(translation)
        if "/diagrams/" in path:
            of_diagrams.setdefault(key, translation)
    changed: dict[str, bytes] = {}
    for path, part in parts.items():
        text = part.fill(each[path])
        if text != part.text:
            changed[path] = text.encode()
            check_xml(changed[path], path)
    return archive.replace(changed)


def text_parts(archive: Archive, format: Format | Literal["xlsx"], name: str) -> Iterator[str]:  # noqa: A002
    """Yield the paths of the parts with text, the main ones first."""
    types = decode_xml(archive.read(_CONTENT_TYPES), f"{name}: {_CONTENT_TYPES}")
    listed: dict[str, str] = {}
    for override in _OVERRIDE.findall(types):
        values = dict(re.findall(r"""\s(PartName|ContentType)\s*=\s*["']([^"']*)["']""", override))
        listed[html.unescape(values.get("PartName", "")).lstrip("/").lower()] = values.get("ContentType", "")
    names = sorted(archive.names, key=_reading_order)
    for path in names:
        kind = listed.get(posixpath.normpath(path).lower())
        if _is_text_type(kind, format) if kind else _DEFAULT_PARTS[format].fullmatch(path):
            yield path


def _is_text_type(kind: str, format: Format | Literal["xlsx"]) -> bool:  # noqa: A002
    """Return whether a content type is the one of a part with text."""
    return any(types.fullmatch(kind) for types in (_TYPES[format], _GRAPHIC_TYPES))


def _reading_order(path: str) -> tuple[bool, str, int]:
    """Return a sort key: the document before notes, headers and footers; slide 2 before slide 10."""
    number = re.search(r"(\d+)\.xml\Z", path)
    is_main = re.match(r"word/document|ppt/slides/|xl/sharedStrings|xl/worksheets/", path) is not None
    return not is_main, re.sub(r"\d+", "", path), int(number[1][-9:]) if number else 0


def _units(text: str) -> Iterator[RunUnit]:
    """Yield the paragraphs of a part: those of WordprocessingML if it has any, or else those of DrawingML."""
    found = prefixes(text)
    words = [uri for uri in _WORD if uri in found]
    for uri in words:
        yield from read_paragraphs(text, word_names(found[uri]))
    if not words:
        yield from drawing_units(text)


def drawing_units(text: str) -> Iterator[RunUnit]:
    """Yield the paragraphs of DrawingML: those of slides, text boxes and charts."""
    found = prefixes(text)
    for uri in _DRAWING:
        if uri in found:
            yield from read_paragraphs(text, drawing_names(found[uri]))


def word_names(w: str) -> RunNames:
    """Return the names of elements of WordprocessingML with a prefix, such as `w:`."""
    return RunNames(
        paragraph=f"{w}p",
        properties=f"{w}pPr",
        run=f"{w}r",
        run_properties=f"{w}rPr",
        text=f"{w}t",
        breaks=frozenset(f"{w}{name}" for name in ("br", "cr", "tab", "ptab")),
        containers=frozenset(
            f"{w}{name}" for name in ("hyperlink", "smartTag", "ins", "moveTo", "customXml", "bdo", "dir")
        ),
        controls=frozenset([f"{w}sdt"]),
        dropped=frozenset(f"{w}{name}" for name in ("proofErr", "lastRenderedPageBreak", "softHyphen")),
        field_character=f"{w}fldChar",
        field_code=f"{w}instrText",
        space=' xml:space="preserve"',
    )


def drawing_names(a: str) -> RunNames:
    """Return the names of elements of DrawingML with a prefix, such as `a:`."""
    return RunNames(
        paragraph=f"{a}p",
        properties=f"{a}pPr",
        run=f"{a}r",
        run_properties=f"{a}rPr",
        text=f"{a}t",
        breaks=frozenset([f"{a}br"]),
    )
