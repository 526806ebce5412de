"""PO files: what is read, and which bytes a translation changes."""

import pytest

from dragoman.data.documents.document import UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.errors import DataError

HEADER = """# Portuguese translations.
msgid ""
msgstr ""
"Language: pt\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

"""
PO = (
    HEADER
    + """#. shown in the menu
#: src/main.c:12
#, c-format
msgid "Open %s"
msgstr ""

#: src/main.c:14
#, fuzzy, c-format
#| msgid "Close %d file"
msgid "Close %s"
msgstr "Fechar %s"

msgctxt "menu"
msgid "Quit"
msgstr "Sair"

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

#~ msgid "Old"
#~ msgstr "Velho"
"""
)


def fill(text: str, *translations: UnitTranslation | None) -> str:
    return open_document(text.encode(), name="pt.po").fill(translations).decode()


def test_units_have_states_contexts_and_plural_forms() -> None:
    units = open_document(PO.encode(), name="pt.po").units
    assert [(unit.source, unit.target, unit.state) for unit in units] == [
        ("Open %s", "", "untranslated"),
        ("Close %s", "Fechar %s", "needs_review"),
        ("Quit", "Sair", "translated"),
        ("%d file", "", "untranslated"),
        ("%d files", "", "untranslated"),
    ]
    assert [unit.plural for unit in units] == [None, None, None, "0", "1"]
    assert (units[0].notes, units[2].context, units[2].line) == ("shown in the menu", "menu", 20)


def test_nothing_filled_keeps_every_byte() -> None:
    document = open_document(PO.encode(), name="pt.po")
    assert document.fill([None] * 5) == PO.encode()
    assert identity(document) == PO.encode()


def test_a_translation_replaces_its_string_only() -> None:
    filled = fill(PO, UnitTranslation(text='Abrir "%s"'), None, None, None, None)
    assert filled == PO.replace('"Open %s"\nmsgstr ""', '"Open %s"\nmsgstr "Abrir \\"%s\\""')


def test_a_new_translation_removes_the_fuzzy_flag() -> None:
    filled = fill(PO, None, UnitTranslation(text="Feche %s"), None, None, None)
    assert filled == PO.replace('#, fuzzy, c-format\n#| msgid "Close %d file"\n', "#, c-format\n").replace(
        "Fechar", "Feche"
    )


def test_a_translation_to_review_is_fuzzy() -> None:
    filled = fill(PO, UnitTranslation(text="Abrir", needs_review=True), None, None, None, None)
    assert filled == PO.replace(
        '#, c-format\nmsgid "Open %s"\nmsgstr ""', '#, fuzzy, c-format\nmsgid "Open %s"\nmsgstr "Abrir"'
    )
    filled = fill(PO, None, None, UnitTranslation(text="Fim", needs_review=True), None, None)
    assert '\n\n#, fuzzy\nmsgctxt "menu"\nmsgid "Quit"\nmsgstr "Fim"\n' in filled


def test_lines_are_wrapped_as_gettext_wraps_them() -> None:
    filled = fill(PO, UnitTranslation(text="uma linha\n" + "palavra " * 15 + "fim"), None, None, None, None)
    expected = '"uma linha\\n"\n"' + "palavra " * 9 + '"\n"' + "palavra " * 6 + 'fim"\n'
    assert f'msgstr ""\n{expected}' in filled


def test_forms_of_the_language_are_added_and_removed() -> None:
    template = PO.replace("Language: pt", "Language: ").replace(
        "nplurals=2; plural=(n != 1);", "nplurals=INTEGER; plural=EXPRESSION;"
    )
    polish = open_document(template.encode(), name="x.pot", target_language="pl")
    assert [unit.source for unit in polish.units[3:]] == ["%d file", "%d files", "%d files"]
    filled = polish.fill([None, None, None, *(UnitTranslation(text=text) for text in ("a", "b", "c"))]).decode()
    assert 'msgstr[0] "a"\nmsgstr[1] "b"\nmsgstr[2] "c"\n' in filled
    assert '"Language: pl\\n"' in filled
    assert "nplurals=3; plural=(n==1 ?" in filled
    japanese = open_document(template.encode(), name="x.pot", target_language="ja")
    filled = japanese.fill([None, None, None, UnitTranslation(text="a")]).decode()
    assert 'msgstr[0] "a"\n\n#~' in filled


def test_a_form_for_several_numbers_has_the_plural_source() -> None:
    russian = PO.replace(
        "nplurals=2; plural=(n != 1);",
        "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);",
    ).replace('msgid "%d file"', 'msgid "One file"')
    assert [unit.source for unit in open_document(russian.encode(), name="ru.po").units[3:]] == ["%d files"] * 3


def test_an_encoding_without_the_characters_becomes_utf_8() -> None:
    latin = PO.replace("charset=UTF-8", "charset=ISO-8859-1").encode("latin-1")
    document = open_document(latin, name="pt.po")
    one = document.fill([UnitTranslation(text="é"), *[None] * 4])
    assert b'msgstr "\xe9"' in one
    other = document.fill([UnitTranslation(text="„é“"), *[None] * 4]).decode()
    assert "charset=UTF-8" in other
    assert 'msgstr "„é“"' in other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\n', "line 1: msgstr is missing"),
        ('msgid "a"\nmsgid "b"\n', "line 2: msgid is there twice"),
        ('msgid "a\nmsgstr ""\n', "line 1: .* is neither a comment nor a keyword"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr "c"\n', "line 1: msgid_plural and the numbers"),
        (HEADER.replace("(n != 1)", "n(") + 'msgid "a"\nmsgstr ""\n', "Plural-Forms"),
        ('msgid "a"\nmsgstr "\udcff"\n', "is not UTF-8 text"),
    ],
)
def test_damaged_files_give_one_message(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_document(text.encode("utf-8", "surrogateescape"), name="x.po")


def test_an_unknown_ending_lists_the_formats() -> None:
    with pytest.raises(DataError, match=r"known document format: po"):
        open_document(b"text", name="x.exe")
