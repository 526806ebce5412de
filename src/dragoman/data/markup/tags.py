"""Tags of XML and HTML fragments, byte for byte, and the rules that say what tags do to a text."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.entities import html5
from typing import Literal, final

from dragoman.data.markup.html_elements import RAW_TEXT, UNTRANSLATED, VOID, is_not_translated

Markup = Literal["xml", "html"]
TagKind = Literal["start", "end", "empty", "comment"]
"""An empty tag is an element without content; comments are all markup that is no tag of an element.

In XML, references to entities that a document type defines, and CDATA sections with tags in them, are empty tags.
"""
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![^>]*(?:>|\Z)|<\?.*?(?:>|\Z)"
    r"|</?(?P<name>[A-Za-z_][^\s<>/]*+)",
    re.DOTALL,
)
"""Markup, and the beginning of a tag. A comment without an end reaches to the end of the text."""
_TAG_PART = re.compile(r"""[^<>"']*+(?:(?P<end>>)|(?P<quote>["']))?""")
"""Part of a tag up to its end or the next quotation mark."""
_ENTITY = re.compile(r"&([A-Za-z_:][\w:.-]{0,80};)")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_HTML_SPACE = re.compile(r"[ \t\n\f\r]+")


@final
@dataclass(frozen=True, slots=True)
class MarkupRules:
    """Rules for a fragment; names of elements are in lower case for HTML.

    The parameters have the meaning and the names that DeepL's interface gives them.
    """

    markup: Markup = "html"
    ignored: frozenset[str] = frozenset()
    """Elements whose text is not translated, in addition to those of HTML."""
    splitting: frozenset[str] = frozenset()
    """Elements that always split a text."""
    non_splitting: frozenset[str] = frozenset()
    """Elements that never split a text."""
    outline_detection: bool = True
    """Find the elements that split: block elements of HTML, and elements of XML that stand next to no text."""

    def is_ignored(self, name: str, start_tag: str) -> bool:
        """Return whether the text of an element is not translated."""
        is_code = self.markup == "html" and name in UNTRANSLATED
        return is_code or name in self.ignored or is_not_translated(start_tag)


@final
@dataclass(frozen=True, slots=True)
class Tag:
    """One piece of markup; `source` is its text byte for byte."""

    kind: TagKind
    name: str
    source: str


def read_tags(content: str, markup: Markup) -> Iterator[Tag | str]:
    """Yield tags, and the texts between them with their character references; those of XML with CDATA sections."""
    end = place = 0
    endless: set[int] = set()
    while match := _MARKUP.search(content, place):
        start, name = match.start(), match["name"]
        place = match.end() if name is None else _tag_end(content, match.end(), endless)
        if place < 0:
            place = start + 1
            continue
        if start > end:
            yield from _read_text(content[end:start], markup)
        source = content[start:place]
        if markup == "xml" and _is_text_section(source):
            yield source
        else:
            yield (tag := _tag(source, name, markup))
            if markup == "html" and tag.kind == "start" and tag.name in RAW_TEXT:
                start, place = place, _raw_end(content, place, tag.name)
                if start < place:
                    yield content[start:place]
        end = place
    if end < len(content):
        yield from _read_text(content[end:], markup)


def _raw_end(content: str, place: int, name: str) -> int:
    """Return where the content of an element ends that has no tags."""
    closing = re.compile(rf"</{name}(?=[\s/>])", re.I).search(content, place)
    return closing.start() if closing is not None else len(content)


def _tag_end(content: str, place: int, endless: set[int]) -> int:
    """Return where a tag ends that is read up to a place outside of quotation marks; -1 if it has no end.

    Such places are added to `endless`, so that no other tag is read on from there: the search takes linear time.
    """
    places: list[int] = []
    while place not in endless:
        places.append(place)
        part = _TAG_PART.match(content, place)
        assert part is not None  # it matches an empty text
        if part["end"]:
            return part.end()
        closing = content.find(part["quote"], part.end()) if part["quote"] else -1
        if closing < 0:
            break
        place = closing + 1
    endless.update(places)
    return -1


def _read_text(source: str, markup: Markup) -> Iterator[Tag | str]:
    """Yield a text without tags; in XML, references to unknown entities are empty tags."""
    if markup == "xml":
        end = 0
        for match in _ENTITY.finditer(source):
            if match[1] not in html5:
                if match.start() > end:
                    yield source[end : match.start()]
                yield Tag("empty", "", match[0])
                end = match.end()
        source = source[end:]
    if source:
        yield source


def is_section(source: str) -> bool:
    """Return whether a piece of XML is a CDATA section."""
    return source.startswith(_CDATA) and source.endswith(_CDATA_END)


def _is_text_section(source: str) -> bool:
    return is_section(source) and "<" not in source[len(_CDATA) :]


def _tag(source: str, name: str | None, markup: Markup) -> Tag:
    if name is None:
        return Tag("empty" if markup == "xml" and is_section(source) else "comment", "", source)
    if markup == "html":
        name = name.lower()
    if source.startswith("</"):
        return Tag("end", name, source)
    return Tag("empty" if source.endswith("/>") or (markup == "html" and name in VOID) else "start", name, source)


def decode_text(source: str, markup: Markup) -> str:
    """Return a text or CDATA section without character references; white space of HTML becomes single spaces."""
    if markup == "xml" and is_section(source):
        return source[len(_CDATA) : -len(_CDATA_END)]
    text = html.unescape(source)
    return _HTML_SPACE.sub(" ", text) if markup == "html" else text


def has_text(source: str) -> bool:
    """Return whether a text has more than white space."""
    return bool(html.unescape(source).strip())


def encode_text(text: str) -> str:
    """Return a text with character references where markup needs them."""
    return html.escape(text, quote=False)
