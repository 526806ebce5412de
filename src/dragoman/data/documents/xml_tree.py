"""XML files as a tree of elements with their places, so that edits replace parts of the text.

Nothing outside of a file is read, and entities are not expanded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from xml.parsers import expat

from dragoman.data.documents.text_edits import Edit, TextFile
from dragoman.data.documents.xml_parser import decode_xml_text, secure_parser, xml_error
from dragoman.errors import DataError

MAX_DEPTH = 256
"""Elements inside of each other."""
MAX_ELEMENTS = 2_000_000
"""Elements and texts of a file; a tree of 2 million takes about 1 GB."""
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
_START_TAG = re.compile(r"""<[^"'>]*(?:"[^"]*"[^"'>]*|'[^']*'[^"'>]*)*>""")
_ATTRIBUTE = r"""(\s{name}\s*=\s*)("[^"]*"|'[^']*')"""
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class XmlText:
    """Characters of an element, or of a CDATA section in it."""

    text: str
    is_cdata: bool = False


@dataclass(slots=True)
class XmlOther:
    """Comment, processing instruction or reference to an entity, as it is written."""

    raw: str


@dataclass(slots=True)
class XmlElement:
    """Element with its places: of its start tag, its content and its end tag."""

    name: str
    """Name without its namespace."""
    namespace: str
    attributes: dict[str, str]
    """Values by name; names with a namespace have it, and a space, before them."""
    line: int
    start: int
    inner: int
    """Start of the content."""
    inner_end: int = 0
    end: int = 0
    children: list["XmlElement | XmlText | XmlOther"] = field(default_factory=list)

    def elements(self, *names: str) -> Iterator["XmlElement"]:
        """Yield the child elements, those with one of the names if there are any."""
        for child in self.children:
            if isinstance(child, XmlElement) and (not names or child.name in names):
                yield child

    def first(self, *names: str) -> "XmlElement | None":
        """Return the first child element with one of the names."""
        return next(self.elements(*names), None)

    def walk(self) -> Iterator["XmlElement"]:
        """Yield the element and all inside of it, in the order of the file."""
        yield self
        for child in self.elements():
            yield from child.walk()

    @property
    def text(self) -> str:
        """All characters inside of the element."""
        parts = (child.text if isinstance(child, XmlText | XmlElement) else "" for child in self.children)
        return "".join(parts)

    @property
    def language(self) -> str:
        """Value of `xml:lang`, or of `lang` as in TMX 1.1."""
        return self.attributes.get(f"{XML_NAMESPACE} lang", self.attributes.get("lang", ""))


@dataclass(frozen=True, slots=True)
class XmlFile:
    """XML file and its root."""

    file: TextFile
    root: XmlElement

    def raw(self, element: XmlElement) -> str:
        """Return the content of an element as it is written."""
        return self.file.text[element.inner : element.inner_end]

    def set_content(self, element: XmlElement, content: str) -> Edit:
        """Return the edit that gives an element a content, which is XML."""
        if element.inner < element.end:
            return Edit(element.inner, element.inner_end, content)
        tag = self.file.text[element.start : element.inner]
        name = re.match(r"<([^\s/>]+)", tag)
        assert name is not None
        return Edit(element.inner - 2, element.inner, f">{content}</{name[1]}>")

    def set_attributes(self, element: XmlElement, values: Mapping[str, str | None]) -> Iterator[Edit]:
        """Yield the edits that give attributes a value, or remove them; those not there are added before others."""
        tag = self.file.text[element.start : element.inner]
        name = re.match(r"<[^\s/>]+", tag)
        assert name is not None
        added = ""
        for key, value in values.items():
            found = re.search(_ATTRIBUTE.replace("{name}", re.escape(key)), tag)
            if found is None:
                added += "" if value is None else f' {key}="{escape_attribute(value)}"'
            elif value is None:
                yield Edit(element.start + found.start(), element.start + found.end(), "")
            elif found[2][1:-1] != escape_attribute(value):
                yield Edit(element.start + found.start(2), element.start + found.end(2), f'"{escape_attribute(value)}"')
        if added:
            place = element.start + name.end()
            yield Edit(place, place, added)

    def indent(self, place: int) -> str:
        """Return the white space before a place, with its line break; none where other text is before it."""
        found = re.search(r"\r?\n[ \t]*\Z", self.file.text[max(0, place - 200) : place])
        return found.group() if found else ""


def escape(text: str) -> str:
    """Return a text as the content of an element; characters that XML cannot have become U+FFFD."""
    return _NOT_XML.sub("\ufffd", text).translate(_ESCAPES)


def escape_attribute(text: str) -> str:
    """Return a text as the value of an attribute in double quotation marks."""
    return escape(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")


def parse_xml(content: bytes, name: str) -> XmlFile:
    """Read an XML file. Raises DataError, with the line, if it is not well-formed or too large or deep."""
    return parse_xml_text(decode_xml_text(content, name), name)


def parse_xml_text(file: TextFile, name: str) -> XmlFile:
    """Read the characters of an XML file as `parse_xml` does."""
    builder = _Builder(file.text, name)
    parser = secure_parser(name, text=file.text)
    builder.follow(parser)
    try:
        parser.Parse(file.text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise xml_error(name, error) from error
    assert builder.root is not None
    return XmlFile(file, builder.root)


class _Builder:
    """Builds the tree from the events of a parser."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.root: XmlElement | None = None
        self.stack: list[XmlElement] = []
        self.count = 0
        self.in_cdata = False
        self._bytes = self._characters = 0
        self._names: dict[str, tuple[str, str]] = {}
        """Namespace and name of each element, which all elements of that name share."""
        self._is_ascii = text.isascii()

    def follow(self, parser: expat.XMLParserType) -> None:
        self.parser = parser
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.StartCdataSectionHandler = partial(self.set_cdata, True)
        parser.EndCdataSectionHandler = partial(self.set_cdata, False)
        parser.DefaultHandler = self.other

    def place(self) -> int:
        """Return the character at which the current event starts."""
        index = self.parser.CurrentByteIndex
        if self._is_ascii:
            return index
        place, left = self._characters, index - self._bytes
        while left > 0:  # as many characters as bytes, or fewer
            piece = self.text[place : place + max(1, left // 4)]
            place, left = place + len(piece), left - len(piece.encode())
        self._bytes, self._characters = index, place
        return place

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count()
        if len(self.stack) == MAX_DEPTH:
            raise DataError(f"{self.name}: has more than {MAX_DEPTH} elements inside of each other. Check the file.")
        place = self.place()
        tag = _START_TAG.match(self.text, place)
        assert tag is not None
        if name not in self._names:
            namespace, _, local = name.rpartition(" ")
            self._names[name] = namespace, local
        namespace, local = self._names[name]
        element = XmlElement(local, namespace, attributes, self.parser.CurrentLineNumber, place, tag.end())
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def end(self, _: str) -> None:
        element = self.stack.pop()
        if self.text[element.inner - 2] == "/":
            element.inner_end = element.end = element.inner
        else:
            element.inner_end = self.place()
            element.end = self.text.index(">", element.inner_end) + 1

    def characters(self, text: str) -> None:
        self._count()
        if self.stack:
            self.stack[-1].children.append(XmlText(text, self.in_cdata))

    def set_cdata(self, value: bool) -> None:
        self.in_cdata = value

    def other(self, raw: str) -> None:
        self._count()
        if self.stack:
            self.stack[-1].children.append(XmlOther(raw))

    def _count(self) -> None:
        self.count += 1
        if self.count > MAX_ELEMENTS:
            raise DataError(f"{self.name}: has more than {MAX_ELEMENTS:,} elements and texts. Split the file.")
