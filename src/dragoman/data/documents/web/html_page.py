"""HTML pages and XHTML files: block elements split the text, inline elements are codes, everything else stays as is."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.inline_units import WHITE
from dragoman.data.documents.span_document import Edit, EditedText, SpanText, SpanUnit, ValueSpan
from dragoman.data.documents.text_edits import decode_text, text_encoding
from dragoman.data.markup import MarkupRules, parse_inline, split_blocks
from dragoman.data.markup.tags import Tag, read_tags
from dragoman.errors import DataError

_RULES: Final = MarkupRules("html")
ATTRIBUTE = re.compile(r"""(?P<name>[^\s=>/"']+)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^\s>"']+))?""")
_TEXT_ATTRIBUTES: Final = frozenset(
    ["alt", "title", "placeholder", "aria-label", "aria-description", "summary", "label"]
)
_BUTTONS: Final = frozenset(["submit", "button", "reset"])
_DESCRIPTIONS: Final = frozenset(
    ["description", "keywords", "og:title", "og:description", "twitter:title", "twitter:description"]
)
"""Names of `meta` elements whose content is text for readers."""
_SPACES = re.compile(f"[{WHITE}]+")
_CHARSET = re.compile(rb"""<meta\b[^>]{0,200}?\bcharset\s*=\s*["']?\s*([\w.:-]+)""", re.I)
_XML_ENCODING = re.compile(rb"""<\?xml\b[^>]{0,100}?\bencoding\s*=\s*["']([\w.:-]+)""")
_DECLARED_BYTES = 1024
"""Bytes at the start of a page in which its encoding is declared (HTML Living Standard, 4.2.5.4)."""


@final
class HtmlPage:
    """HTML page, or XHTML file, with its texts as units."""

    format = "html"

    def __init__(self, content: bytes, *, name: str = "", target_language: str | None = None) -> None:
        """Raise DataError if the encoding is unknown or does not fit the content."""
        head = content[:_DECLARED_BYTES]
        found = _CHARSET.search(head) or _XML_ENCODING.search(head)
        encoding = _encoding(content, found[1].decode("ascii", "replace") if found else "utf-8", name)
        self._file = decode_text(content, name, encoding=encoding)
        self._text = read_page(self._file.text, name=name, target_language=target_language)

    @property
    def units(self) -> Sequence[Unit]:
        """Return the texts of blocks and attributes, in the order of the page."""
        return self._text.units

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the page with translations; everything else stays byte for byte."""
        filled = self._text.fill(translations)
        return self._file.mark + filled.encode(self._file.encoding, "xmlcharrefreplace")


def read_page(page: str, *, name: str = "", target_language: str | None = None) -> SpanText:
    """Return the units of a page. With a target language, the root element names it where it names one now.

    A unit is a block as `split_blocks` makes it, so that a page is translated as the same text in a request is.
    Raises DataError on elements nested too deep.
    """
    try:
        spans: list[SpanUnit] = [*_blocks(page), *_attributes(page)]
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    fixed = [*_language_edits(page, target_language)] if target_language else []
    return SpanText(page, spans, fixed=fixed)


@final
@dataclass(frozen=True)
class FragmentSpan:
    """Block of a page: a fragment of HTML without the tags around all of its text."""

    start: int
    end: int
    source: str

    @property
    def unit(self) -> Unit:
        """Return the text to translate."""
        return Unit(source=self.source, markup="html")

    def write(self, translation: str, text: EditedText) -> str:
        """Return the translation, in whose tags there may be translated attributes."""
        edited: dict[str, str] = {}
        place = self.start
        for piece in read_tags(self.source, "html"):
            source = piece if isinstance(piece, str) else piece.source
            if isinstance(piece, Tag):
                edited[source] = text.slice(place, place + len(source))
            place += len(source)
        return "".join(
            piece if isinstance(piece, str) else edited.get(piece.source, piece.source)
            for piece in read_tags(translation, "html")
        )


def _blocks(page: str) -> Iterator[FragmentSpan]:
    place = 0
    for number, piece in enumerate(split_blocks(page, _RULES)):
        if number % 2:
            inline = parse_inline(piece, _RULES)
            start, end = place + len(inline.begin), place + len(piece) - len(inline.end)
            yield FragmentSpan(start, end, page[start:end])
        place += len(piece)


def _attributes(page: str) -> Iterator[ValueSpan]:
    """Yield the attributes that people read, but none in elements that are not translated."""
    place = 0
    hidden: list[str] = []
    """Open elements of one name; the first of them is not translated."""
    for piece in read_tags(page, "html"):
        source = piece if isinstance(piece, str) else piece.source
        if isinstance(piece, Tag) and not hidden and piece.kind in ("start", "empty") and "=" in source:
            yield from _texts_of_tag(piece, place)
        if isinstance(piece, Tag) and piece.kind == "start":
            if hidden[:1] == [piece.name] or (not hidden and _RULES.is_ignored(piece.name, source)):
                hidden.append(piece.name)
        elif isinstance(piece, Tag) and piece.kind == "end" and hidden[:1] == [piece.name]:
            hidden.pop()
        place += len(source)


def _texts_of_tag(tag: Tag, offset: int) -> Iterator[ValueSpan]:
    attributes = [one for one in ATTRIBUTE.finditer(tag.source, 1 + len(tag.name)) if one["value"]]
    values = {one["name"].lower(): html.unescape(one["value"].strip("\"'")).lower() for one in attributes}
    for one in attributes:
        if not _is_text(one["name"].lower(), tag.name, values):
            continue
        quoted = one["value"]
        quote = quoted[0] if quoted[0] in "\"'" else ""
        text = collapse(quoted[len(quote) : len(quoted) - len(quote)]).strip(WHITE)
        if any(map(str.isalpha, text)):
            start, end = one.span("value")
            yield ValueSpan(offset + start, offset + end, text, _quoting(quote or '"'), context=one["name"].lower())


def escape_text(text: str) -> str:
    """Return the text with the characters escaped that have a meaning in HTML."""
    return html.escape(text, quote=False)


def collapse(raw: str) -> str:
    """Return the characters of a text in HTML, with white space collapsed as a browser does."""
    return html.unescape(_SPACES.sub(" ", raw))


def _encoding(content: bytes, declared: str, name: str) -> str:
    """Return the encoding in which a page is read and written. Raises DataError if that would lose characters."""
    encoding = text_encoding(declared, name)
    if encoding in ("iso8859-1", "ascii") and _round_trips(content, "cp1252"):
        return "cp1252"  # as browsers read it (WHATWG Encoding, section 4.2)
    if encoding != "utf-8" and not _round_trips(content, encoding):
        raise DataError(f"{name}: is not {encoding} text, as it declares. Save it as UTF-8.")
    return encoding


def _round_trips(content: bytes, encoding: str) -> bool:
    try:
        return content.decode(encoding).encode(encoding) == content
    except UnicodeError:
        return False


def _is_text(attribute: str, element: str, values: dict[str, str]) -> bool:
    """Return whether the value of an attribute is text for readers."""
    match attribute:
        case "value":
            return element == "input" and values.get("type") in _BUTTONS
        case "content":
            return element == "meta" and values.get("name", values.get("property")) in _DESCRIPTIONS
        case "label":
            return element in ("option", "optgroup", "track")
        case "summary":
            return element == "table"
        case _:
            return attribute in _TEXT_ATTRIBUTES and values.get("translate") != "no"


def _quoting(quote: str) -> Callable[[str], str]:
    def escape(text: str) -> str:
        escaped = escape_text(text)
        return quote + escaped.replace(quote, "&quot;" if quote == '"' else "&#39;") + quote

    return escape


def _language_edits(page: str, language: str) -> Iterator[Edit]:
    """Yield the edits that name another language in the root element."""
    place = 0
    for piece in read_tags(page, "html"):
        source = piece if isinstance(piece, str) else piece.source
        if isinstance(piece, Tag) and piece.name == "html":
            break
        place += len(source)
    else:
        return
    for one in ATTRIBUTE.finditer(source, 1 + len("html")):
        if one["name"].lower() in ("lang", "xml:lang") and one["value"]:
            start, end = one.span("value")
            quote = one["value"][0] if one["value"][0] in "\"'" else ""
            yield Edit(place + start, place + end, partial(str, f"{quote}{language}{quote}"))
