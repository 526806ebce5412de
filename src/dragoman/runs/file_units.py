"""Units of a file, analyzed once: their placeholders, paragraphs and warnings, and reports of their translations."""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

from dragoman.data.documents.document import Document, Origin, Unit, UnitTranslation
from dragoman.data.documents.line_breaks import Paragraph, cut_lines, has_letters
from dragoman.data.documents.plural_categories import plural_categories
from dragoman.data.markup.elements import emptied_elements
from dragoman.data.markup.tags import MarkupRules
from dragoman.data.placeholders.accelerators import recognize_accelerator, remove_accelerator
from dragoman.data.placeholders.icu_messages import IcuMessage
from dragoman.data.placeholders.numbering import remove_numbers
from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.data.placeholders.rules import AnyPlaceholders, PlaceholderRules
from dragoman.errors import DataError
from dragoman.inference.control.inline_markup import emptied_problem

_TAG = re.compile(r"<[^<>]*>")


@final
@dataclass(frozen=True, slots=True)
class AnalyzedUnit:
    """Unit of a file with what is recognized in its source."""

    unit: Unit
    rules: PlaceholderRules | None
    """Rules for its placeholders; None where they are not protected."""
    paragraphs: tuple[Paragraph, ...]
    placeholders: Counter[str]
    """How often it has each placeholder."""
    is_message: bool
    """Whether it is an ICU message with branches."""
    has_mnemonic: bool
    """Whether it has a menu mnemonic, such as `_File`."""
    is_text: bool
    """Whether it has letters besides its placeholders and tags."""

    @classmethod
    def of(cls, unit: Unit, rules: PlaceholderRules | None) -> "AnalyzedUnit":
        """Analyze a unit."""
        plain = _without_mnemonic(unit.source, unit, rules)
        found = find_placeholders(plain, markup=unit.markup is not None)
        words, end = [], 0
        for placeholder in found:
            words.append(plain[end : placeholder.start])
            end = placeholder.end
        text = "".join([*words, plain[end:]])
        if unit.markup is not None:
            text = html.unescape(_TAG.sub(" ", text))
        language = None if rules is None else rules.plural_language
        categories = (plural_categories(language) or ()) if language is not None else ()
        is_message = (IcuMessage.parse(unit.source, categories) or IcuMessage.parse(unit.source)) is not None
        return cls(
            unit,
            rules,
            _whole(unit.source) if unit.markup is not None or is_message else cut_lines(unit.source),
            Counter(placeholder.text for placeholder in found),
            is_message,
            plain != unit.source,
            has_letters(text),
        )

    def translated(self, text: str, origin: Origin, *, warnings: Sequence[str] = ()) -> UnitTranslation:
        """Return a translation with the placeholders of its source, and warnings about its length and placeholders."""
        unit = self.unit
        too_long = unit.max_length is not None and len(text) > unit.max_length
        return UnitTranslation(
            text=text,
            origin=origin,
            key=unit.key,
            line=unit.line,
            source=unit.source,
            warnings=(
                *warnings,
                *self._emptied_elements(text, warnings),
                *([f"longer than {unit.max_length} characters"] if too_long else []),
                *self._placeholder_warnings(text),
            ),
            placeholders=self.placeholders.total(),
        )

    def _emptied_elements(self, text: str, warnings: Sequence[str]) -> Iterator[str]:
        """Yield warnings of elements without text in a translation, which no other warning is about."""
        if "</" not in self.unit.source or self.is_message:
            return
        rules = MarkupRules(self.unit.markup or "html")
        try:
            emptied = emptied_elements(self.unit.source, text, rules)
        except DataError:  # elements nested too deep, whose tags are placeholders
            return
        for tag in emptied:
            if not any(f"{tag:.60}" in warning for warning in warnings):
                yield emptied_problem(tag)

    def _placeholder_warnings(self, text: str) -> Iterator[str]:
        """Yield warnings of placeholders that a translation lacks or has more often, and of a lost mnemonic."""
        if self.is_message:  # text around a choice moves into each of its branches
            return
        plain = _without_mnemonic(text, self.unit, self.rules)
        needed = self.placeholders
        found = Counter(one.text for one in find_placeholders(plain, markup=self.unit.markup is not None))
        if needed != found and self.rules is not None and self.rules.numbering:
            needed, found = (Counter(map(remove_numbers, counts.elements())) for counts in (needed, found))
        yield from (f"without the placeholder {one}" for one in needed - found)
        yield from (f"with a placeholder more: {one}" for one in found - needed)
        if self.has_mnemonic and plain == text:
            yield "without the accelerator"


def analyze_units(
    document: Document, placeholders: AnyPlaceholders | None, target_language: str | None
) -> list[AnalyzedUnit]:
    """Return the units of a document, with the rules for their placeholders.

    The menu mnemonic is that of the rules `placeholders`, or else the one that several texts of the file have.
    """
    rules = unit_rules(document, placeholders, target_language)
    return [AnalyzedUnit.of(*pair) for pair in zip(document.units, rules, strict=True)]


def unit_rules(
    document: Document, given: AnyPlaceholders | None, target_language: str | None
) -> list[PlaceholderRules | None]:
    """Return the rules for the placeholders of each unit, None where they are not protected."""
    if given is False:
        return [None] * len(document.units)
    if isinstance(given, PlaceholderRules):
        rules = given
    else:
        plain = [unit.source for unit in document.units if unit.markup is None]
        rules = PlaceholderRules(accelerator=recognize_accelerator(plain))
    rules = replace(rules, plural_language=rules.plural_language or target_language)
    return [replace(rules, numbering=rules.numbering or unit.numbering) for unit in document.units]


def without_tags(text: str, unit: Unit) -> str:
    """Return a text of a unit without the tags that it may have."""
    return text if unit.markup is None else _TAG.sub("", text)


def _without_mnemonic(text: str, unit: Unit, rules: PlaceholderRules | None) -> str:
    if rules is None or rules.accelerator is None or unit.markup is not None:
        return text
    marked = remove_accelerator(text, rules.accelerator)
    return text if marked is None else marked.text


def _whole(text: str) -> tuple[Paragraph, ...]:
    """Return a text as one paragraph; markup and ICU messages stay whole, so that nothing is cut from their ends."""
    inner = text.strip()
    place = text.index(inner)
    return (Paragraph(inner, text[:place], text[place + len(inner) :]),)
