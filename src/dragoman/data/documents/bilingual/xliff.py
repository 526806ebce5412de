"""XLIFF 1.2 and 2.x (OASIS): units with inline codes, states and existing targets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.data.documents.document import Origin, State, Unit, UnitTranslation, join_key
from dragoman.data.documents.inline_codes import InlineCodes, InlineNames
from dragoman.data.documents.text_edits import Edit, EditedDocument, Entry, single
from dragoman.data.documents.xml_tree import XmlElement, XmlFile, escape, parse_xml
from dragoman.errors import DataError

NAMES_1 = InlineNames(frozenset({"g", "mrk"}), ("bx", "bpt"), ("ex", "ept"))
NAMES_2 = InlineNames(frozenset({"pc", "mrk"}), ("sc", "sm"), ("ec", "em"), ("id",), ("startRef",))
_STATES_1: dict[str, State] = {
    "new": "untranslated",
    "needs-translation": "untranslated",
    "needs-adaptation": "needs_review",
    "needs-l10n": "needs_review",
    "needs-review-adaptation": "needs_review",
    "needs-review-l10n": "needs_review",
    "needs-review-translation": "needs_review",
    "signed-off": "final",
    "final": "final",
}
_STATES_2: dict[str, State] = {"initial": "needs_review", "reviewed": "translated", "final": "final"}
_QUALIFIERS: dict[Origin, str] = {
    "machine": "mt-suggestion",
    "memory": "exact-match",
    "fuzzy_memory": "fuzzy-match",
    "copy": "mt-suggestion",
}
NEEDS_REVIEW_2 = "dragoman:needs-review"
"""Value of subState in XLIFF 2, whose states do not tell a translation to review from a new one."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Elements of one unit."""

    owner: XmlElement
    """trans-unit, or segment of XLIFF 2."""
    source: XmlElement
    target: XmlElement | None


def open_xliff(content: bytes, name: str, *, target_language: str | None = None) -> EditedDocument:
    """Read an XLIFF file. Raises DataError if it is none, or damaged."""
    xml = parse_xml(content, name)
    if xml.root.name != "xliff":
        raise DataError(f"{name}: has the root <{xml.root.name}>, and XLIFF has <xliff>. Check the ending of the file.")
    is_first = xml.root.attributes.get("version", "1.2").startswith("1.")
    entries = [
        _segmented_entry(xml, place, segments)
        if is_first and (segments := _segments(place.owner.first("seg-source")))
        else _entry(xml, place, is_first=is_first)
        for place in _places(xml.root, is_first=is_first)
    ]

    def finish() -> Iterator[Edit]:
        yield from _language_edits(xml, target_language, name, is_first=is_first)

    return EditedDocument("xliff", xml.file, entries, finish)


def _places(root: XmlElement, *, is_first: bool, translate: bool = True) -> Iterator[_Place]:
    """Yield the units that may be translated; `translate="no"` is inherited."""
    for element in root.elements():
        wanted = element.attributes.get("translate", "yes" if translate else "no") == "yes"
        if element.name == ("trans-unit" if is_first else "segment"):
            source = element.first("source")
            if wanted and source is not None and source.text.strip():
                yield _Place(element, source, element.first("target"))
        elif element.name in ("file", "body", "group", "unit"):
            yield from _places(element, is_first=is_first, translate=wanted)


def _entry(xml: XmlFile, place: _Place, *, is_first: bool) -> Entry:
    codes = InlineCodes(NAMES_1 if is_first else NAMES_2, xml.file.text)
    fragment = codes.read(place.source)
    old = codes.read(place.target) if place.target is not None else ""
    has_codes = bool(codes.codes)
    state = (_state_1 if is_first else _state_2)(place) if old.strip() else "untranslated"
    if not has_codes:
        fragment, old = place.source.text, place.target.text if place.target is not None else ""
    attributes = place.owner.attributes
    unit = Unit(
        source=fragment,
        markup="xml" if has_codes else None,
        target=old,
        state=state,
        key=attributes.get("resname", attributes.get("id", "")),
        notes="\n".join(note.text for note in place.owner.elements("note")),
        max_length=_max_length(place.owner),
        line=place.owner.line,
    )

    def write(new: UnitTranslation) -> Iterator[Edit]:
        if new.text == old and new.needs_review == (state == "needs_review"):
            return
        content = codes.write(new.text, unit.key) if has_codes else escape(new.text)
        if new.text == old and place.target is not None:
            content = xml.raw(place.target)
        yield from (_write_1 if is_first else _write_2)(xml, place, content, new)

    return single(unit, write)


def _segments(element: XmlElement | None) -> dict[str, XmlElement]:
    """Return the segments of a source or target that a translation program has cut, by their number."""
    marks = (one for one in element.walk() if one.name == "mrk") if element is not None else ()
    return {one.attributes.get("mid", ""): one for one in marks if one.attributes.get("mtype") == "seg"}


def _segmented_entry(xml: XmlFile, place: _Place, segments: dict[str, XmlElement]) -> Entry:
    """Return an entry with a unit for each segment of `seg-source`."""
    targets = _segments(place.target)
    state = _state_1(place) if place.target is not None else "untranslated"
    codes = {number: InlineCodes(NAMES_1, xml.file.text) for number in segments}
    texts: dict[str, tuple[str, str]] = {}
    """Fragments of source and target."""
    for number, segment in segments.items():
        source, target = codes[number].read(segment), targets.get(number)
        texts[number] = (source, codes[number].read(target) if target is not None else "")
    units = tuple(
        Unit(
            source=source,
            markup="xml",
            target=target,
            state=state if target.strip() else "untranslated",
            key=join_key(place.owner.attributes.get("id", ""), number),
            line=segments[number].line,
        )
        for number, (source, target) in texts.items()
    )

    def write(new: Sequence[UnitTranslation | None]) -> Iterator[Edit]:
        given = zip(units, new, texts.items(), strict=True)
        written = {
            number: codes[number].write(one.text, unit.key)
            for unit, one, (number, (_, old)) in given
            if one is not None and one.text != old
        }
        needs_review = any(one is not None and one.needs_review for one in new)
        if not written and needs_review == (state == "needs_review"):
            return
        yield from _write_segments(xml, place, segments, written, needs_review=needs_review)

    return Entry(units, write)


def _write_segments(
    xml: XmlFile, place: _Place, segments: dict[str, XmlElement], written: dict[str, str], *, needs_review: bool
) -> Iterator[Edit]:
    """Yield the edits that write segments into their marks of the target, or into a new target with all marks."""
    state = "needs-review-translation" if needs_review else "translated"
    targets = _segments(place.target)
    if place.target is not None and {*written} <= {*targets}:
        for number, content in written.items():
            yield xml.set_content(targets[number], content)
        yield from xml.set_attributes(place.target, {"state": state})
        return
    whole = place.owner.first("seg-source")
    assert whole is not None
    parts, last = [], whole.inner
    for number, segment in segments.items():
        old = xml.raw(targets[number]) if number in targets else ""
        parts += [xml.file.text[last : segment.inner], written.get(number, old)]
        last = segment.inner_end
    content = "".join([*parts, xml.file.text[last : whole.inner_end]])
    if place.target is not None:
        yield xml.set_content(place.target, content)
        yield from xml.set_attributes(place.target, {"state": state})
    else:
        yield Edit(whole.end, whole.end, f'{xml.indent(whole.start)}<target state="{state}">{content}</target>')


def _state_1(place: _Place) -> State:
    assert place.target is not None
    if place.owner.attributes.get("approved") == "yes":
        return "final"
    return _STATES_1.get(place.target.attributes.get("state", ""), "translated")


def _state_2(place: _Place) -> State:
    attributes = place.owner.attributes
    if attributes.get("subState") == NEEDS_REVIEW_2:
        return "needs_review"
    return _STATES_2.get(attributes.get("state", "initial"), "translated")


def _max_length(owner: XmlElement) -> int | None:
    width = owner.attributes.get("maxwidth", "")
    is_characters = owner.attributes.get("size-unit", "pixel") == "char"
    return int(width) if is_characters and width.isascii() and width.isdigit() and len(width) < 10 else None


def _write_1(xml: XmlFile, place: _Place, content: str, new: UnitTranslation) -> Iterator[Edit]:
    state = "needs-review-translation" if new.needs_review else "translated"
    qualifier = _QUALIFIERS[new.origin]
    if place.owner.attributes.get("approved") == "yes":
        yield from xml.set_attributes(place.owner, {"approved": "no"})
    if place.target is None:
        before = place.owner.first("seg-source") or place.source
        tag = f'<target state="{state}" state-qualifier="{qualifier}">{content}</target>'
        yield Edit(before.end, before.end, xml.indent(before.start) + tag)
    else:
        yield xml.set_content(place.target, content)
        yield from xml.set_attributes(place.target, {"state": state, "state-qualifier": qualifier})


def _write_2(xml: XmlFile, place: _Place, content: str, new: UnitTranslation) -> Iterator[Edit]:
    state, detail = ("initial", NEEDS_REVIEW_2) if new.needs_review else ("translated", None)
    yield from xml.set_attributes(place.owner, {"state": state, "subState": detail})
    if place.target is None:
        end = place.source.end
        yield Edit(end, end, f"{xml.indent(place.source.start)}<target>{content}</target>")
    else:
        yield xml.set_content(place.target, content)


def _language_edits(xml: XmlFile, language: str | None, name: str, *, is_first: bool) -> Iterator[Edit]:
    """Yield the edits that write the language of the targets, where the file does not say it yet."""
    if is_first:
        for file in xml.root.elements("file"):
            if language is not None and "target-language" not in file.attributes:
                yield from xml.set_attributes(file, {"target-language": language})
    elif "trgLang" not in xml.root.attributes:
        if language is None:
            raise DataError(f"{name}: does not say the language of its targets (trgLang). Give the target language.")
        yield from xml.set_attributes(xml.root, {"trgLang": language})
