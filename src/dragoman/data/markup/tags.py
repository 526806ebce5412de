"""Tags of XML and HTML fragments, byte for byte, and the rules that say what tags do to a text."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.entities import html5
from typing import Literal, final

from dragoman.data.markup.html_elements import UNTRANSLATED, VOID, is_not_translated

Markup = Literal["xml", "html"]
TagKind = Literal["start", "end", "empty", "comment"]
"""An empty tag is an element without content; comments are all markup that is no tag of an element.

In XML, references to entities that a document type defines, and CDATA sections with tags in them, are empty tags.
"""
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![^>]*(?:>|\Z)|<\?.*?(?:>|\Z)"
    r"|</?(?P<name>[A-Za-z_][^\s<>/]*)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>",
    re.DOTALL,
)
"""A comment without an end reaches to the end, so that the search takes linear time."""
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
    end = 0
    for match in _MARKUP.finditer(content):
        if match.start() > end:
            yield from _read_text(content[end : match.start()], markup)
        yield match[0] if markup == "xml" and _is_text_section(match[0]) else _tag(match, markup)
        end = match.end()
    if end < len(content):
        yield from _read_text(content[end:], markup)


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


def _tag(match: re.Match[str], markup: Markup) -> Tag:
    source, name = match[0], match["name"]
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
