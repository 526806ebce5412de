"""EPUB books: the chapters, the table of contents, and the language in the metadata.

Sources: EPUB 3.3 (W3C), EPUB Open Container Format, OPF 2.0.1 and NCX (IDPF, ANSI/NISO Z39.86-2005).
"""

import html
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final, final
from urllib.parse import unquote

from dragoman.data.documents.archives.archive import Archive
from dragoman.data.documents.archives.ooxml import fill_archive
from dragoman.data.documents.archives.xml_syntax import decode_xml, escape_xml, find_elements, unescape_xml
from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.span_document import Edit, SpanText, ValueSpan
from dragoman.data.documents.web.html_page import read_page
from dragoman.errors import DataError

_CONTAINER: Final = "META-INF/container.xml"
_ROOT = re.compile(r"""<(?:\w+:)?rootfile\b[^>]*\bfull-path\s*=\s*["']([^"']+)["']""")
_ITEM = re.compile(r"<(?:\w+:)?item\b[^>]*>")
_ATTRIBUTE = re.compile(r"""\s([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_LANGUAGE = re.compile(r"<dc:language\b[^>]*>\s*([^<\s]+)\s*</dc:language>")
_PAGES: Final = "application/xhtml+xml"
_NCX: Final = "application/x-dtbncx+xml"


@final
class Book:
    """EPUB file with the texts of its chapters and of its table of contents as units."""

    format = "epub"

    def __init__(self, content: bytes, *, name: str = "", target_language: str | None = None) -> None:
        """Raise DataError if the archive, its list of files or a chapter is damaged."""
        self._archive = Archive(content, name=name)
        container = decode_xml(self._archive.read(_CONTAINER), f"{name}: {_CONTAINER}")
        found = _ROOT.search(container)
        if found is None:
            raise DataError(f"{name}: its {_CONTAINER} names no package. Check that it is an EPUB file.")
        root = html.unescape(found[1])
        package = decode_xml(self._archive.read(root), f"{name}: {root}")
        self._parts: dict[str, SpanText] = {}
        names = frozenset(self._archive.names)
        for path, kind in _items(package, posixpath.dirname(root)):
            if path in names and path not in self._parts:
                text = decode_xml(self._archive.read(path), f"{name}: {path}")
                self._parts[path] = (
                    SpanText(text, [*_labels(text)])
                    if kind == _NCX
                    else read_page(text, name=f"{name}: {path}", target_language=target_language)
                )
        languages = _LANGUAGE.finditer(package) if target_language else ()
        fixed = [Edit(*one.span(1), lambda: escape_xml(target_language or "")) for one in languages][:1]
        self._parts[root] = SpanText(package, [], fixed=fixed)

    @property
    def units(self) -> Sequence[Unit]:
        """Return the texts of all chapters, in the order of the list of files, and of the table of contents."""
        return [unit for part in self._parts.values() for unit in part.units]

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the book with translations; everything else keeps its bytes."""
        return fill_archive(self._archive, self._parts, translations)


def _items(package: str, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the media type of each chapter and table of contents."""
    for item in _ITEM.findall(package):
        values = {name: html.unescape(one or other) for name, one, other in _ATTRIBUTE.findall(item)}
        if values.get("media-type") in (_PAGES, _NCX) and "href" in values:
            path = posixpath.normpath(posixpath.join(folder, unquote(values["href"])))
            yield path, values["media-type"]


def _labels(text: str) -> Iterator[ValueSpan]:
    """Yield the labels of a table of contents in NCX."""
    for label in find_elements(text, frozenset(["navLabel", "docTitle", "ncx:navLabel", "ncx:docTitle"])):
        for one in (*label.find("text"), *label.find("ncx:text")):
            source = " ".join(unescape_xml(text[one.inner_start : one.inner_end]).split())
            if any(map(str.isalpha, source)) and "<" not in text[one.inner_start : one.inner_end]:
                yield ValueSpan(one.inner_start, one.inner_end, source, escape_xml)
