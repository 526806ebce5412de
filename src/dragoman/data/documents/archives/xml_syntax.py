"""Tags and texts of an XML file by place, after a check that the file is well-formed and declares no entities.

Source: Extensible Markup Language (XML) 1.0, fifth edition; Namespaces in XML 1.0.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, final
from xml.parsers import expat

from dragoman.data.documents.xml_parser import secure_parser
from dragoman.errors import DataError

MAX_DEPTH: Final = 256
"""Nesting of elements."""
_TOKEN = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<!DOCTYPE(?:[^<>\[\"']|\"[^\"]*\"|'[^']*'|\[[^\]]*\])*>"
    r"|</(?P<end>[^\s>]+)\s*>|<(?P<start>[^\s/>]+)(?:[^>\"']|\"[^\"]*\"|'[^']*')*>",
    re.DOTALL,
)
_NAMESPACE = re.compile(r"""\sxmlns(?::(?P<prefix>[^\s=]+))?\s*=\s*(?P<quote>["'])(?P<uri>.*?)(?P=quote)""", re.DOTALL)

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@final
@dataclass(frozen=True, slots=True)
class XmlToken:
    """Start tag, end tag, text, or something else such as a comment."""

    kind: Literal["start", "end", "text", "other"]
    start: int
    end: int
    name: str = ""
    """Name of the element with the prefix that its file uses."""
    is_closed: bool = False
    """Whether a start tag ends its element, too."""


def decode_xml(content: bytes, name: str) -> str:
    """Return the text of an XML file in UTF-8. Raises DataError unless it is well-formed and without hazards."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 (byte {error.start}). Save the document again.") from error
    check_xml(content, name)
    return text


def check_xml(content: bytes, name: str) -> None:
    """Raise DataError if XML in UTF-8 is not well-formed, declares entities, or is nested deeper than `MAX_DEPTH`."""
    parser = secure_parser(name, namespaces=False)
    depth = 0

    def start(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise DataError(f"{name}: elements are nested more than {MAX_DEPTH} deep. Check the file.")

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError) as error:
        raise DataError(f"{name}: not well-formed XML ({error}). Restore the file from a copy.") from error


def scan_xml(text: str) -> Iterator[XmlToken]:
    """Yield the tokens of a well-formed file, without a gap."""
    place = 0
    for found in _TOKEN.finditer(text):
        if found.start() > place:
            yield XmlToken("text", place, found.start())
        place = found.end()
        if found["start"] is not None:
            yield XmlToken("start", found.start(), place, found["start"], found[0].endswith("/>"))
        elif found["end"] is not None:
            yield XmlToken("end", found.start(), place, found["end"])
        else:
            yield XmlToken("text" if found["cdata"] is not None else "other", found.start(), place)
    if place < len(text):
        yield XmlToken("text", place, len(text))


@final
@dataclass(slots=True)
class Element:
    """Element by its place, or, without a name, a text."""

    name: str
    start: int
    inner_start: int
    inner_end: int = 0
    end: int = 0
    children: list["Element"] = field(default_factory=list)

    def find(self, name: str) -> Iterator["Element"]:
        """Yield the descendants with a name that are not within another one of that name."""
        stack = self.children[::-1]
        while stack:
            one = stack.pop()
            if one.name == name:
                yield one
            else:
                stack.extend(reversed(one.children))


def find_elements(text: str, names: frozenset[str]) -> Iterator[Element]:
    """Yield the outermost elements of a well-formed file with one of the names, each with its content."""
    stack: list[Element] = []
    for token in scan_xml(text):
        if token.kind == "start" and (stack or token.name in names):
            one = Element(token.name, token.start, token.end, token.end, token.end)
            if stack:
                stack[-1].children.append(one)
            if not token.is_closed:
                stack.append(one)
            elif not stack:
                yield one
        elif stack and token.kind == "text":
            stack[-1].children.append(Element("", token.start, token.start, token.end, token.end))
        elif stack and token.kind == "end":
            one = stack.pop()
            one.inner_end, one.end = token.start, token.end
            if not stack:
                yield one
        elif stack and token.kind == "other":
            stack[-1].children.append(Element("?", token.start, token.start, token.end, token.end))


def unescape_xml(raw: str) -> str:
    """Return the characters of a text in XML."""
    if raw.startswith("<![CDATA["):
        return raw[9:-3]
    return html.unescape(raw)


def escape_xml(text: str) -> str:
    """Return a text as it is written in XML, without the characters that XML 1.0 does not allow."""
    return html.escape(_NOT_XML.sub("", text), quote=False)


def prefixes(text: str) -> dict[str, str]:
    """Return the prefix, with its colon, of each namespace that an XML file declares; the first one if it has several.

    Raises nothing: a namespace that is not declared has no elements.
    """
    found: dict[str, str] = {}
    for one in _NAMESPACE.finditer(text):
        found.setdefault(one["uri"], f"{one['prefix']}:" if one["prefix"] else "")
    return found
