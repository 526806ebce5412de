"""Placeholders of files: what the format allows, accelerators, and warnings."""

from dragoman.data.documents.document import Unit
from dragoman.data.documents.recognize import open_document
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
