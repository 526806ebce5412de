"""TMX 1.4 and TBX (ISO 30042): entries with a text in each language, of which a missing one is added."""

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.inline_codes import InlineCodes, InlineNames
from dragoman.data.documents.text_edits import Edit, EditedDocument, Entry, single
from dragoman.data.documents.xml_tree import XmlElement, XmlFile, escape, parse_xml
from dragoman.errors import DataError

NAMES = InlineNames(frozenset({"hi"}), ("bpt",), ("ept",), ("i",), ("i",))


@dataclass(frozen=True, slots=True)
class _Kind:
    """Elements of a format."""

    format: str
    entries: tuple[str, ...]
    languages: tuple[str, ...]
    groups: tuple[str, ...]
    """Elements between language and text."""
    text: str


_TMX = _Kind("tmx", ("tu",), ("tuv",), (), "seg")
_TBX = _Kind(
    "tbx", ("termEntry", "conceptEntry"), ("langSet", "langSec"), ("tig", "ntig", "termGrp", "termSec"), "term"
)


def open_multilingual(
    content: bytes, name: str, source_language: str | None, target_language: str | None
) -> EditedDocument:
    """Read a TMX or TBX file. Raises DataError if it is none, or the languages cannot be told.

    The source language is by default that of the header.
    """
    xml = parse_xml(content, name)
    kind = _TMX if xml.root.name == "tmx" else _TBX
    if xml.root.name not in ("tmx", "martif", "tbx"):
        raise DataError(f"{name}: has the root <{xml.root.name}>, and TMX has <tmx>. Check the ending of the file.")
    header = xml.root.first("header")
    source_language = source_language or (header.attributes.get("srclang") if header is not None else None)
    source_language = source_language or xml.root.language
    if not source_language or source_language == "*all*" or target_language is None:
        raise DataError(f"{name}: has texts in several languages. Give source language and target language.")
    found = (
        _entry(xml, one, kind, source_language, target_language) for one in xml.root.walk() if one.name in kind.entries
    )
    return EditedDocument(kind.format, xml.file, [entry for entry in found if entry is not None])


def same_language(one: str, other: str) -> bool:
    """Return whether two codes are of one language; a code without a region is every region's."""
    one, other = one.lower().replace("_", "-"), other.lower().replace("_", "-")
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


def _entry(xml: XmlFile, element: XmlElement, kind: _Kind, source: str, target: str) -> Entry | None:
    """Return the entry of an element; None where it has no text in the source language."""
    languages = {side: _find(element, kind, side) for side in (source, target)}
    found, existing = languages[source], languages[target]
    text = _text(found, kind) if found is not None else None
    if found is None or text is None or not text.text.strip():
        return None
    codes = InlineCodes(NAMES, xml.file.text)
    fragment = codes.read(text)
    other = _text(existing, kind) if existing is not None else None
    old = codes.read(other) if other is not None else None
    has_codes = bool(codes.codes)
    if not has_codes:
        fragment, old = text.text, other.text if other is not None else None
    notes = "\n".join(note.text for note in element.elements("note"))
    unit = Unit(
        source=fragment,
        markup="xml" if has_codes else None,
        target=old or "",
        state="translated" if old else "untranslated",
        key=element.attributes.get("tuid", element.attributes.get("id", "")),
        notes=notes,
        line=element.line,
    )

    def write(new: UnitTranslation) -> Iterator[Edit]:
        if new.text == (old or ""):
            return
        content = codes.write(new.text, unit.key) if has_codes else escape(new.text)
        if other is not None:
            yield xml.set_content(other, content)
        elif existing is None:
            yield Edit(found.end, found.end, xml.indent(found.start) + _new(found, kind, target, content))

    return single(unit, write)


def _find(element: XmlElement, kind: _Kind, language: str) -> XmlElement | None:
    sides = list(element.elements(*kind.languages))
    exact = (side for side in sides if side.language.lower() == language.lower())
    return next(exact, None) or next((side for side in sides if same_language(side.language, language)), None)


def _text(side: XmlElement, kind: _Kind) -> XmlElement | None:
    found = side.first(kind.text)
    for group in side.elements():
        if found is None and group.name in kind.groups:
            found = _text(group, kind)
    return found


def _new(like: XmlElement, kind: _Kind, language: str, content: str) -> str:
    """Return the element of another language, with the elements that the one of the source has around its text."""
    inside = f"<{kind.text}>{content}</{kind.text}>"
    around = [group.name for group in like.walk() if group.name in kind.groups and _text(group, kind) is not None]
    for name in reversed(around):
        inside = f"<{name}>{inside}</{name}>"
    return f'<{like.name} xml:lang="{language}">{inside}</{like.name}>'
