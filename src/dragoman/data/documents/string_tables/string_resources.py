"""String tables in XML with one language: Android strings.xml, .resx of .NET and .stringsdict of Apple."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.data.documents.document import Markup, Unit
from dragoman.data.documents.inline_codes import InlineCodes, InlineNames
from dragoman.data.documents.text_edits import Edit, EditedDocument, Entry, replaced, single
from dragoman.data.documents.xml_tree import XmlElement, XmlFile, XmlOther, XmlText, escape, parse_xml

PLURAL_CATEGORIES = ("zero", "one", "two", "few", "many", "other")
"""Plural categories of Unicode's CLDR."""
_ANDROID_TAGS = (
    "a annotation b big cite dfn em font h1 h2 h3 h4 h5 h6 i li ol p s small span strike strong sub sup tt u ul"
)
_ANDROID = InlineNames(frozenset(_ANDROID_TAGS.split()), repeats=True)
"""Styles of Android's string resources; other elements, such as `xliff:g`, are not translated."""
_CDATA = re.compile(r"(\s*<!\[CDATA\[)(.*)(\]\]>\s*)", re.DOTALL)
_ANDROID_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))|(\")|([ \t\r\n]+)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t"}


def open_android(content: bytes, name: str) -> EditedDocument:
    """Read the string resources of an Android program: strings, plurals and arrays, unless not translatable."""
    xml = parse_xml(content, name)
    return EditedDocument("android", xml.file, list(_android_entries(xml)))


def open_resx(content: bytes, name: str) -> EditedDocument:
    """Read the string resources of a .NET program; values with a type, such as images, are left out."""
    xml = parse_xml(content, name)
    entries = []
    for data in xml.root.elements("data"):
        value, key = data.first("value"), data.attributes.get("name", "")
        if value is None or {"type", "mimetype"} & {*data.attributes} or key.startswith(">>") or not value.text.strip():
            continue
        comment = data.first("comment")
        notes = comment.text if comment is not None else ""
        unit = Unit(source=value.text, key=key, notes=notes, line=data.line)
        entries.append(replaced(unit, value.inner, value.inner_end, escape))
    return EditedDocument("resx", xml.file, entries)


def open_stringsdict(content: bytes, name: str) -> EditedDocument:
    """Read the plural forms of an Apple program; the keys of a property list come before their values."""
    xml = parse_xml(content, name)
    return EditedDocument("stringsdict", xml.file, list(_stringsdict_entries(xml.root, "")))


def _stringsdict_entries(element: XmlElement, path: str) -> Iterator[Entry]:
    key = ""
    for child in element.elements():
        if child.name == "key":
            key = child.text
        elif child.name == "string" and key in PLURAL_CATEGORIES and child.text.strip():
            unit = Unit(source=child.text, key=f"{path}{key}", plural=key, line=child.line)
            yield replaced(unit, child.inner, child.inner_end, escape)
        elif child.name in ("dict", "plist", "array"):
            yield from _stringsdict_entries(child, f"{path}{key}." if key else path)


@dataclass(frozen=True, slots=True)
class _Resource:
    """String of an Android file."""

    element: XmlElement
    key: str
    notes: str
    plural: str | None = None


def _android_entries(xml: XmlFile) -> Iterator[Entry]:
    notes = ""
    for child in xml.root.children:
        if isinstance(child, XmlOther):
            notes = child.raw.removeprefix("<!--").removesuffix("-->").strip()
        elif isinstance(child, XmlElement):
            if child.attributes.get("translatable") != "false":
                for one in _resources(child, notes):
                    entry = _android_entry(xml, one)
                    if entry is not None:
                        yield entry
            notes = ""


def _resources(element: XmlElement, notes: str) -> Iterator[_Resource]:
    name = element.attributes.get("name", "")
    if element.name == "string":
        yield _Resource(element, name, notes)
    elif element.name == "plurals":
        for item in element.elements("item"):
            quantity = item.attributes.get("quantity", "other")
            yield _Resource(item, f"{name}.{quantity}", notes, quantity)
    elif element.name == "string-array":
        for number, item in enumerate(element.elements("item")):
            yield _Resource(item, f"{name}.{number}", notes)


def _android_entry(xml: XmlFile, resource: _Resource) -> Entry | None:
    element = resource.element
    cdata = _CDATA.fullmatch(xml.raw(element))
    if cdata is not None and _is_one_section(element.children):
        source = _android_text(cdata[2], keeps_quotes=True)
        markup: Markup | None = "html" if "<" in source else None
    else:
        codes = InlineCodes(_ANDROID, xml.file.text, _android_text, android_escape)
        cdata, source = None, codes.read(element)
        markup = "xml" if codes.codes else None
        source = source if markup else _android_text(element.text)
    if not source.strip() or source.startswith(("@string/", "@android:")):
        return None
    unit = Unit(
        source=source, markup=markup, key=resource.key, notes=resource.notes, plural=resource.plural, line=element.line
    )

    def write(text: str) -> str:
        if cdata is not None:
            return cdata[1] + android_escape(text).replace("]]>", "]]]]><![CDATA[>") + cdata[3]
        return codes.write(text, unit.key) if markup else escape(_android_plain(text))

    return single(
        unit, lambda new: () if new.text == source else (Edit(element.inner, element.inner_end, write(new.text)),)
    )


def _is_one_section(children: Sequence[object]) -> bool:
    """Return whether the only text is in CDATA sections."""
    texts = [child for child in children if not isinstance(child, XmlText) or child.text.strip()]
    return all(isinstance(child, XmlText) and child.is_cdata for child in texts)


def _android_text(raw: str, *, keeps_quotes: bool = False) -> str:
    """Return a string as Android shows it: without escapes, and with white space as one space outside of quotes."""
    quoted = False

    def one(found: re.Match[str]) -> str:
        nonlocal quoted
        code, letter, quote, space = found.groups()
        if code or letter:
            return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)
        if quote:
            quoted = not quoted
            return quote if keeps_quotes else ""
        return space if quoted or keeps_quotes else " "

    return _ANDROID_ESCAPE.sub(one, raw)


def android_escape(text: str) -> str:
    """Return a text with the escapes of Android."""
    escaped = (
        text.replace("\\", r"\\").replace("'", r"\'").replace('"', r"\"").replace("\n", r"\n").replace("\t", r"\t")
    )
    return re.sub(r"(?<= ) ", r"\\u0020", escaped)


def _android_plain(text: str) -> str:
    """Return a whole string with escapes: also of what Android would read as a reference, or remove at the ends."""
    escaped = android_escape(text)
    if escaped.startswith(("@", "?")):
        escaped = f"\\{escaped}"
    return re.sub(r"\A | \Z", r"\\u0020", escaped)
