"""TS files of Qt Linguist: source and translation of each message, with plural forms."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dragoman.data.documents.bilingual.gettext_plurals import language_plurals, parse_plurals
from dragoman.data.documents.document import State, Unit, UnitTranslation
from dragoman.data.documents.text_edits import Edit, EditedDocument, Entry
from dragoman.data.documents.xml_tree import XmlElement, XmlFile, escape, parse_xml


def open_ts(content: bytes, name: str, *, target_language: str | None = None) -> EditedDocument:
    """Read a TS file; messages that the program has no longer are left out."""
    xml = parse_xml(content, name)
    language = xml.root.attributes.get("language", target_language)
    plurals = language_plurals(language) if language else None
    forms = parse_plurals(plurals, name).count if plurals else 2

    def finish() -> Iterator[Edit]:
        if target_language is not None and "language" not in xml.root.attributes:
            yield from xml.set_attributes(xml.root, {"language": target_language.replace("-", "_")})

    found: list[Entry | None] = []
    for context in xml.root.elements("context"):
        title = context.first("name")
        text = title.text if title is not None else ""
        found += [_entry(xml, one, text, forms) for one in context.elements("message")]
    return EditedDocument("ts", xml.file, [entry for entry in found if entry is not None], finish)


def _entry(xml: XmlFile, message: XmlElement, context: str, forms: int) -> Entry | None:
    source, translation = message.first("source"), message.first("translation")
    if source is None or translation is None or not source.text.strip() or source.first("byte") is not None:
        return None
    kind = translation.attributes.get("type")
    if kind in ("vanished", "obsolete"):
        return None
    is_plural = message.attributes.get("numerus") == "yes"
    old = list(translation.elements("numerusform")) if is_plural else [translation]
    texts = [one.text for one in old]
    texts += [""] * (forms - len(texts)) if is_plural else []
    like = _unit(source, context, message)
    units = tuple(
        replace(like, target=text, state=_state(text, kind), plural=str(number) if is_plural else None)
        for number, text in enumerate(texts)
    )

    def write(new: Sequence[UnitTranslation | None]) -> Iterator[Edit]:
        written = [text if one is None else one.text for one, text in zip(new, texts, strict=True)]
        if written != texts:
            content = "".join(
                f"{xml.indent(translation.start)}    <numerusform>{escape(one)}</numerusform>" for one in written
            )
            content = content + xml.indent(translation.start) if is_plural else escape(written[0])
            yield xml.set_content(translation, content)
        is_open = any(one is None and not text for one, text in zip(new, texts, strict=True))
        needs_review = is_open or any(one is not None and one.needs_review for one in new)
        yield from xml.set_attributes(translation, {"type": "unfinished" if needs_review else None})

    return Entry(units, write)


def _state(text: str, kind: str | None) -> State:
    return "untranslated" if not text else "needs_review" if kind == "unfinished" else "translated"


def _unit(source: XmlElement, context: str, message: XmlElement) -> Unit:
    """Return what all plural forms of a message have in common."""
    text = source.text
    notes = [one.text for one in message.elements("comment", "extracomment", "translatorcomment")]
    key = message.attributes.get("id", text)
    return Unit(source=text, key=key, context=context, notes="\n".join(notes), line=message.line)
