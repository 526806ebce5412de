"""Units of files: placeholders that the format allows, accelerators, and warnings."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman
from dragoman.data.documents.document import Unit
from dragoman.data.documents.recognize import open_document
from dragoman.data.placeholders import icu_messages, recognition
from dragoman.data.placeholders.recognition import Placeholder
from dragoman.data.placeholders.rules import PlaceholderRules
from dragoman.runs.file_units import AnalyzedUnit, unit_rules

MENU = """#, c-format
msgid "Copy %d files to %s"
msgstr ""

#, python-format
msgid "Copy %d to %s"
msgstr ""

msgid "_File"
msgstr ""

msgid "Save _As"
msgstr ""

msgid "E_xit"
msgstr ""
"""
NUMBERED = PlaceholderRules(numbering=True)
MARKED = PlaceholderRules(accelerator="_")


def test_flags_and_texts_of_a_file_give_the_rules() -> None:
    document = open_document(MENU.encode(), name="de.po")
    rules = unit_rules(document, None, "pl")
    assert [one.numbering for one in rules if one] == [True, False, False, False, False]
    assert {(one.accelerator, one.plural_language) for one in rules if one} == {("_", "pl")}
    assert unit_rules(document, False, None) == [None] * 5
    assert unit_rules(document, PlaceholderRules(), None)[1] == PlaceholderRules()


def test_strings_of_android_may_be_numbered() -> None:
    content = b'<resources><string name="a">Copy %d to %s</string></resources>'
    [rules] = unit_rules(open_document(content, name="strings.xml"), True, None)
    assert rules == NUMBERED


def warnings(unit: Unit, text: str, rules: PlaceholderRules) -> list[str]:
    return list(AnalyzedUnit.of(unit, rules).translated(text, "machine").warnings)


def test_numbers_of_placeholders_are_no_loss() -> None:
    unit = Unit(source="Copy %d to {} or %s")
    assert warnings(unit, "Nach %2$s {0} %1$d", NUMBERED) == []
    assert warnings(unit, "Nach %1$d {0}", NUMBERED) == ["without the placeholder %s"]
    assert warnings(unit, "%d %s {} {}", PlaceholderRules()) == ["with a placeholder more: {}"]


def test_accelerator_is_no_placeholder_and_is_missed() -> None:
    unit = Unit(source="E_xit %s")
    assert list(AnalyzedUnit.of(unit, MARKED).placeholders) == ["%s"]
    assert warnings(unit, "_Beenden %s", MARKED) == []
    assert warnings(unit, "Beenden %s", MARKED) == ["without the accelerator"]


def test_a_unit_is_analyzed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: Counter[str] = Counter()
    parsed: Counter[str] = Counter()
    find, parse = recognition._find, icu_messages._parse

    def counted_find(text: str, *, markup: bool) -> Iterator[Placeholder]:
        searched[text] += 1
        return find(text, markup=markup)

    def counted_parse(text: str, place: int, *others: object) -> object:
        parsed[text] += place == 0
        return parse(text, place, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(recognition, "_find", counted_find)
    monkeypatch.setattr(icu_messages, "_parse", counted_parse)
    translator = dragoman.load(Path(__file__).parents[2] / "golden" / "run-1", dragoman.Translator)
    message = "{n, plural, one {a # cat once} other {# cats once}}"
    texts = ["the red cat %s sleeps once", "a_cat plays once {name}", message]
    po = "\n".join(f'msgid "{text}"\nmsgstr ""\n' for text in texts)
    report = dragoman.translate_file(translator, po.encode(), name="de.po", target_language="de").report
    assert report.counts["machine"] == 3
    assert [searched[text] for text in texts[:2]] == [1, 1]
    assert parsed[message] == 1
