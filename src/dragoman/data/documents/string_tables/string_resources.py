"""String tables in XML with one language: Android strings.xml, .resx of .NET and .stringsdict of Apple."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.data.documents.document import Markup, Unit, join_key
from dragoman.data.documents.inline_codes import InlineCodes, InlineNames
from dragoman.data.documents.plural_categories import PLURAL_CATEGORIES, missing_categories
from dragoman.data.documents.text_edits import EditedDocument, Entry, added, replaced
from dragoman.data.documents.xml_tree import XmlElement, XmlFile, XmlOther, XmlText, escape, parse_xml

_ANDROID_TAGS = (
    "a annotation b big cite dfn em font h1 h2 h3 h4 h5 h6 i li ol p s small span strike strong sub sup tt u ul"
)
_ANDROID = InlineNames(frozenset(_ANDROID_TAGS.split()), repeats=True)
"""Styles of Android's string resources; other elements, such as `xliff:g`, are not translated."""
_CDATA = re.compile(r"(\s*<!\[CDATA\[)(.*)(\]\]>\s*)", re.DOTALL)
_ANDROID_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))|(\")|([ \t\r\n]+)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t"}


def open_android(content: bytes, name: str, *, target_language: str | None = None) -> EditedDocument:
    """Read the string resources of an Android program: strings, plurals and arrays, unless not translatable.

    Plural forms that only the target language has are units, too: they are added to the file.
    """
    xml = parse_xml(content, name)
    return EditedDocument("android", xml.file, list(_android_entries(xml, target_language)))


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


def open_stringsdict(content: bytes, name: str, *, target_language: str | None = None) -> EditedDocument:
    """Read the plural forms of an Apple program; the keys of a property list come before their values.

    Plural forms that only the target language has are units, too: they are added to the file.
    """
    xml = parse_xml(content, name)
    return EditedDocument("stringsdict", xml.file, list(_stringsdict_entries(xml, xml.root, "", target_language)))


def _stringsdict_entries(xml: XmlFile, element: XmlElement, path: str, language: str | None) -> Iterator[Entry]:
    categories = [key.text for key in element.elements("key") if key.text in PLURAL_CATEGORIES]
    key: XmlElement | None = None
    for child in element.elements():
        if child.name == "key":
            key = child
        elif child.name == "string" and key is not None and key.text in categories and child.text.strip():
            unit = Unit(
                source=child.text,
                key=join_key(path, key.text) if path else key.text,
                plural=key.text,
                line=child.line,
                numbering=True,
            )
            for missing in missing_categories(categories, language) if key.text == "other" else ():
                before = f"<key>{missing}</key>{xml.indent(child.start)}<string>"
                write = _Around(before, escape, f"</string>{xml.indent(key.start)}")
                yield added(unit, missing, key.start, write)
            yield replaced(unit, child.inner, child.inner_end, escape)
        elif child.name in ("dict", "plist", "array"):
            name = "" if key is None else key.text
            inner = path if key is None else join_key(path, name) if path else name
            yield from _stringsdict_entries(xml, child, inner, language)


@dataclass(frozen=True, slots=True)
class _Around:
    """Writes a text with what is before and after it in the file."""

    before: str
    escape: Callable[[str], str]
    after: str

    def __call__(self, text: str) -> str:
        return f"{self.before}{self.escape(text)}{self.after}"


@dataclass(frozen=True, slots=True)
class _Resource:
    """String of an Android file."""

    element: XmlElement
    key: str
    notes: str
    plural: str | None = None
    missing: tuple[str, ...] = ()
    """Plural forms of the target language that are added before this one."""


def _android_entries(xml: XmlFile, language: str | None) -> Iterator[Entry]:
    notes = ""
    for child in xml.root.children:
        if isinstance(child, XmlOther):
            notes = child.raw.removeprefix("<!--").removesuffix("-->").strip()
        elif isinstance(child, XmlElement):
            if child.attributes.get("translatable") != "false":
                for one in _resources(child, notes, language):
                    yield from _android_entry(xml, one)
            notes = ""


def _resources(element: XmlElement, notes: str, language: str | None) -> Iterator[_Resource]:
    name = element.attributes.get("name", "")
    if element.name == "string":
        yield _Resource(element, name, notes)
    elif element.name == "plurals":
        found = [item.attributes.get("quantity", "other") for item in element.elements("item")]
        missing = tuple(missing_categories(found, language))
        for item, quantity in zip(element.elements("item"), found, strict=True):
            some = missing if quantity == "other" else ()
            yield _Resource(item, join_key(name, quantity), notes, quantity, some)
    elif element.name == "string-array":
        for number, item in enumerate(element.elements("item")):
            yield _Resource(item, join_key(name, str(number)), notes)


def _android_entry(xml: XmlFile, resource: _Resource) -> Iterator[Entry]:
    """Yield the entry of a string and, before it, those of the plural forms that are missing."""
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
        return
    unit = Unit(
        source=source,
        markup=markup,
        key=resource.key,
        notes=resource.notes,
        plural=resource.plural,
        line=element.line,
        numbering=True,
    )

    def write(text: str) -> str:
        if cdata is not None:
            return cdata[1] + android_escape(text).replace("]]>", "]]]]><![CDATA[>") + cdata[3]
        return codes.write(text, unit.key) if markup else escape(_android_plain(text))

    for category in resource.missing:
        tag = xml.file.text[element.start : element.inner]
        before = re.sub(r"(\squantity\s*=\s*)(\"[^\"]*\"|'[^']*')", rf'\g<1>"{category}"', tag, count=1)
        after = xml.file.text[element.inner_end : element.end] + xml.indent(element.start)
        yield added(unit, category, element.start, _Around(before, write, after))
    yield replaced(unit, element.inner, element.inner_end, write)


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
