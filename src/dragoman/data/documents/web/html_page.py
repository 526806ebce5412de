"""HTML pages and XHTML files: block elements split the text, inline elements are codes, everything else stays as is."""

import codecs
import html
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, final

from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.inline_units import WHITE, Kind, Piece, split_pieces, text_pieces
from dragoman.data.documents.span_document import Edit, InlineSpan, SpanText, SpanUnit, ValueSpan
from dragoman.data.documents.text_edits import decode_text
from dragoman.data.documents.web.html_syntax import ATTRIBUTE, Token, scan
from dragoman.data.markup.html_elements import (
    ENCLOSING,
    INLINE,
    OPAQUE,
    PROTECTED,
    UNTOUCHED,
    VOID,
    is_not_translated,
)
from dragoman.errors import DataError, shorten

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
MAX_NESTING = 64
"""Nesting of elements that are codes with texts of their own."""


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
        xml = _XML_ENCODING.match(head.lstrip()) is not None
        self._text = read_page(self._file.text, xml=xml, name=name, target_language=target_language)

    @property
    def units(self) -> Sequence[Unit]:
        """Return the texts of blocks and attributes, in the order of the page."""
        return self._text.units

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the page with translations; everything else stays byte for byte."""
        filled = self._text.fill(translations)
        return self._file.mark + filled.encode(self._file.encoding, "xmlcharrefreplace")


def read_page(page: str, *, xml: bool = False, name: str = "", target_language: str | None = None) -> SpanText:
    """Return the units of a page. With a target language, the root element names it where it names one now."""
    reader = _PageReader(page, xml=xml, name=name)
    reader.read()
    fixed = [*_language_edits(reader.root_tag, page, target_language)] if target_language else []
    return SpanText(page, reader.spans, fixed=fixed)


def escape_text(text: str) -> str:
    """Return the text with the characters escaped that have a meaning in HTML."""
    return html.escape(text, quote=False)


def collapse(raw: str) -> str:
    """Return the characters of a text in HTML, with white space collapsed as a browser does."""
    return html.unescape(_SPACES.sub(" ", raw))


def _encoding(content: bytes, declared: str, name: str) -> str:
    """Return the encoding in which a page is read and written. Raises DataError if that would lose characters."""
    try:
        encoding = codecs.lookup(declared).name
        "".encode(encoding)  # `codecs` knows transformations, too, such as compression
    except LookupError:
        raise DataError(f"{name}: its encoding {shorten(declared)} is unknown. Save it as UTF-8.") from None
    if encoding.startswith("utf-16"):
        return "utf-8"  # a declaration that can be read as bytes is not in UTF-16
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


class _PageReader:
    """Collects the units of a page."""

    def __init__(self, page: str, *, xml: bool, name: str) -> None:
        self.spans: list[SpanUnit] = []
        self.root_tag: Token | None = None
        self._page, self._xml, self._name = page, xml, name
        self._pieces: list[Piece] = []
        self._enclosing: list[tuple[Token, list[Piece]]] = []
        """Open elements that are codes with texts of their own, and the pieces before each."""
        self._hidden: list[str] = []
        """Open elements of the same name within an element that is not translated; the first one is that element."""
        self._hidden_start: Token | None = None

    def read(self) -> None:
        for token in scan(self._page, xml=self._xml):
            if self._hidden:
                self._skip(token)
            else:
                self._take(token)
        if self._hidden_start is not None:
            self._add_hidden(len(self._page))
        while self._enclosing:  # elements without an end
            self._flush()
            self._pieces = self._enclosing.pop()[1]
        self._flush()

    def _take(self, token: Token) -> None:
        match token.kind:
            case "text":
                raw = self._page[token.start : token.end]
                self._pieces.extend(text_pieces(raw, token.start, collapse))
            case "raw":
                if token.name == "title":
                    self._add_raw(token)
            case "comment":
                self._pieces.append(Piece("void", token.start, token.end))
            case "declaration":
                self._flush()
            case "start":
                self._open(token)
            case "end":
                self._close(token)

    def _add_raw(self, token: Token) -> None:
        text = collapse(self._page[token.start : token.end]).strip(WHITE)
        lead = len(self._page[token.start : token.end]) - len(self._page[token.start : token.end].lstrip(WHITE))
        if any(map(str.isalpha, text)):
            end = token.start + len(self._page[token.start : token.end].rstrip(WHITE))
            self.spans.append(ValueSpan(token.start + lead, end, text, escape_text, context=token.name))

    def _open(self, token: Token) -> None:
        if self.root_tag is None and token.name.lower() == "html":
            self.root_tag = token
        tag = self._page[token.start : token.end]
        if "=" in tag:
            self._add_attributes(token, tag)
        name = token.name
        if not token.is_closed and (name in UNTOUCHED or name in PROTECTED or _is_hidden(name, tag)):
            if not _is_code(name):
                self._flush()
            self._hidden, self._hidden_start = [name], token
        elif name in ENCLOSING and not token.is_closed:
            if len(self._enclosing) >= MAX_NESTING:
                raise DataError(
                    f"{self._name}: more than {MAX_NESTING} elements `{name}` in each other; check the file."
                )
            self._enclosing.append((token, self._pieces))
            self._pieces = []
        elif name == "br":
            self._pieces.append(Piece("break", token.start, token.end))
        elif name in OPAQUE or name in PROTECTED:
            self._pieces.append(Piece("void", token.start, token.end))
        elif name in INLINE:
            kind: Kind = "void" if token.is_closed else "open"
            self._pieces.append(Piece(kind, token.start, token.end, name=name))
        else:
            self._flush()

    def _close(self, token: Token) -> None:
        if token.name in VOID:
            self._pieces.append(Piece("void", token.start, token.end))
        elif token.name in INLINE:
            self._pieces.append(Piece("close", token.start, token.end, name=token.name))
        elif token.name in ENCLOSING and any(token.name == opened.name for opened, _ in self._enclosing):
            self._flush()
            opened, pieces = self._enclosing.pop()
            while opened.name != token.name:
                opened, pieces = self._enclosing.pop()
            pieces.append(Piece("void", opened.start, token.end))
            self._pieces = pieces
        else:
            self._flush()

    def _skip(self, token: Token) -> None:
        """Pass over the content of an element that is not translated."""
        if token.kind == "start" and token.name == self._hidden[0] and not token.is_closed:
            self._hidden.append(token.name)
        elif token.kind == "end" and token.name == self._hidden[0]:
            self._hidden.pop()
            if not self._hidden:
                self._add_hidden(token.end)

    def _add_hidden(self, end: int) -> None:
        start = self._hidden_start
        assert start is not None
        self._hidden, self._hidden_start = [], None
        name = start.name
        if name in PROTECTED or name in INLINE:
            inside = re.sub(r"<[^<>]*>", "", self._page[start.start : end])
            self._pieces.append(Piece("protected", start.start, end, text=collapse(inside)))
        elif _is_code(name):
            self._pieces.append(Piece("void", start.start, end))
        else:
            self._flush()

    def _add_attributes(self, token: Token, tag: str) -> None:
        found = [one for one in ATTRIBUTE.finditer(tag, 1 + len(token.name)) if one["value"]]
        values = {one["name"].lower(): html.unescape(one["value"].strip("\"'")).lower() for one in found}
        for one in found:
            if _is_text(one["name"].lower(), token.name, values):
                self._add_value(one, token.start)

    def _add_value(self, attribute: re.Match[str], offset: int) -> None:
        quoted = attribute["value"]
        quote = quoted[0] if quoted[0] in "\"'" else ""
        text = collapse(quoted[len(quote) : len(quoted) - len(quote)]).strip(WHITE)
        if any(map(str.isalpha, text)):
            start, end = attribute.span("value")
            context = attribute["name"].lower()
            self.spans.append(ValueSpan(offset + start, offset + end, text, _quoting(quote or '"'), context=context))

    def _flush(self) -> None:
        """End a block: make units of the pieces so far."""
        self.spans.extend(InlineSpan(one, escape_text) for one in split_pieces(self._pieces))
        self._pieces = []


def _is_code(name: str) -> bool:
    """Return whether an element is a part of the sentence around it."""
    return name in OPAQUE or name in PROTECTED or name in INLINE or name in ENCLOSING


def _is_hidden(name: str, tag: str) -> bool:
    """Return whether the content of an element is neither translated nor searched for texts."""
    return (name in OPAQUE and name not in VOID) or is_not_translated(tag)


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


def _language_edits(root: Token | None, page: str, language: str) -> Iterator[Edit]:
    """Yield the edits that name another language in the root element."""
    if root is None:
        return
    for one in ATTRIBUTE.finditer(page[root.start : root.end], 1 + len(root.name)):
        if one["name"].lower() in ("lang", "xml:lang") and one["value"]:
            start, end = one.span("value")
            quote = one["value"][0] if one["value"][0] in "\"'" else ""
            value = f"{quote}{language}{quote}"
            yield Edit(root.start + start, root.start + end, partial(str, value))
