"""Placeholders in the texts of a file: how its format writes them, and which ones a translation lacks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dragoman.data.documents.document import Document, Unit
from dragoman.data.placeholders.accelerators import recognize_accelerator, remove_accelerator
from dragoman.data.placeholders.icu_messages import IcuMessage
from dragoman.data.placeholders.numbering import remove_numbers
from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.data.placeholders.rules import AnyPlaceholders, PlaceholderRules


def unit_rules(
    document: Document, given: AnyPlaceholders | None, target_language: str | None
) -> list[PlaceholderRules | None]:
    """Return the rules for the placeholders of each unit, None where they are not protected.

    The accelerator is that of the rules `given`, or else the one that several texts of the file have.
    """
    if given is False:
        return [None] * len(document.units)
    if isinstance(given, PlaceholderRules):
        rules = given
    else:
        plain = [unit.source for unit in document.units if unit.markup is None]
        rules = PlaceholderRules(accelerator=recognize_accelerator(plain))
    rules = replace(rules, plural_language=rules.plural_language or target_language)
    return [replace(rules, numbering=rules.numbering or unit.numbering) for unit in document.units]


def without_accelerator(text: str, unit: Unit, rules: PlaceholderRules | None) -> str:
    """Return a text without the accelerator that it may have."""
    if rules is None or rules.accelerator is None or unit.markup is not None:
        return text
    marked = remove_accelerator(text, rules.accelerator)
    return text if marked is None else marked.text


def count_placeholders(text: str, unit: Unit, rules: PlaceholderRules | None) -> Counter[str]:
    """Return how often a unit, or its translation, has each placeholder."""
    plain = without_accelerator(text, unit, rules)
    return Counter(one.text for one in find_placeholders(plain, markup=unit.markup is not None))


def placeholder_warnings(unit: Unit, text: str, rules: PlaceholderRules | None) -> Sequence[str]:
    """Return warnings of the placeholders that a translation lacks or has more often, and of a lost accelerator."""
    if IcuMessage.parse(unit.source) is not None:  # text around a choice moves into each of its branches
        return ()
    needed, found = (count_placeholders(one, unit, rules) for one in (unit.source, text))
    if needed != found and rules is not None and rules.numbering:
        needed, found = (Counter(map(remove_numbers, one.elements())) for one in (needed, found))
    warnings = [f"without the placeholder {one}" for one in needed - found]
    warnings += [f"with a placeholder more: {one}" for one in found - needed]
    if without_accelerator(unit.source, unit, rules) != unit.source and without_accelerator(text, unit, rules) == text:
        warnings.append("without the accelerator")
    return warnings
