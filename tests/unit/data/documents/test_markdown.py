"""Markdown: what is a unit, and which bytes a translation changes."""

import pytest

from dragoman.data.documents.document import UnitTranslation, identity
from dragoman.data.documents.recognize import open_document


def sources(content: str) -> list[str]:
    document = open_document(content.encode(), name="a.md")
    assert identity(document) == content.encode()
    return [unit.source for unit in document.units]


def fill(content: str, *translations: str | None) -> str:
    document = open_document(content.encode(), name="a.md")
    return document.fill([None if one is None else UnitTranslation(text=one) for one in translations]).decode()


def test_code_html_front_matter_and_references_stay() -> None:
    content = "---\ntitle: Text\n---\n\n    indented text\n\n```\ntext\n```\n\n<div>\ntext\n</div>\n\n"
    content += "[ref]: http://x.y 'Text'\n\n***\n"
    assert sources(content) == []


def test_blocks_are_units() -> None:
    content = "# One\n\nTwo\n===\n\n- Three\n  1. Four\n\n> Five\n\n| Six | Seven |\n|---|:-:|\n| a\\|b | 8 |\n"
    assert sources(content) == ["One", "Two", "Three", "Four", "Five", "Six", "Seven", "a|b"]
    assert fill(content, "Eins", None, None, "Vier", None, None, "Sieben", "c|d") == (
        "# Eins\n\nTwo\n===\n\n- Three\n  1. Vier\n\n> Five\n\n| Six | Sieben |\n|---|:-:|\n| c\\|d | 8 |\n"
    )


def test_links_code_and_emphasis_are_codes() -> None:
    content = 'Use `f(x)` in the [big *guide*](a_b.md "Title") or ![A picture](p.png) ***here***.\n'
    assert sources(content) == [
        'Use <g id="1" translate="no">f(x)</g> in the <g id="2">big <g id="3">guide</g></g> or <x id="4"/> '
        '<g id="5"><g id="6">here</g></g>.',
        "A picture",
    ]
    translated = '<g id="2"><g id="3">Guia</g> grande</g> <x id="4"/>: <g id="1" translate="no">f(x)</g>.'
    assert fill(content, translated, "Foto") == ('[*Guia* grande](a_b.md "Title") ![Foto](p.png): `f(x)`.\n')


def test_wrapped_paragraphs_are_wrapped_again_with_their_prefix() -> None:
    content = "> - A paragraph of some\n>   words that is wrapped\n>   over lines.\n"
    assert sources(content) == ["A paragraph of some words that is wrapped over lines."]
    assert fill(content, "Ein Absatz aus Worten, der - wie 1. hier - umbrochen ist.") == (
        "> - Ein Absatz aus\n>   Worten, der - wie 1.\n>   hier - umbrochen ist.\n"
    )


def test_hard_breaks_end_a_unit() -> None:
    content = "First line  \nsecond line\\\nthird line\n"
    assert sources(content) == ["First line", "second line", "third line"]
    assert fill(content, "Eins", None, "Drei") == "Eins  \nsecond line\\\nDrei\n"


def test_codes_of_other_programs_stay() -> None:
    content = "- [x] Done {% raw %} now[^1]\n\n> [!NOTE]\n> Read this\n\n[^1]: A footnote\n"
    assert sources(content) == ['Done <x id="1"/> now', "Read this", "A footnote"]


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ("- a", "\\- a"),
        ("12. a", "12\\. a"),
        ("# a", "\\# a"),
        ("*a* [b] `c` <d> &amp; \\*", "\\*a\\* \\[b\\] \\`c\\` \\<d> \\&amp; \\\\\\*"),
        ("snake_case _a_ x < y & z", "snake_case \\_a\\_ x < y & z"),
    ],
)
def test_translations_are_escaped(translation: str, written: str) -> None:
    assert fill("Text\n", translation) == f"{written}\n"
    assert sources(f"{written}\n") == [translation]


def test_emphasis_that_would_not_be_read_is_written_otherwise() -> None:
    content = "A _big_ house\n"
    assert fill(content, 'Das <g id="1">Groß</g>haus') == "Das *Groß*haus\n"
    assert fill("A **big** house\n", 'Das <g id="1">(Groß)</g>haus') == "Das <strong>(Groß)</strong>haus\n"
    assert fill(content, 'Das <g id="1"> große </g>Haus') == "Das  _große_ Haus\n".replace("  ", " ")


def test_links_by_their_text_keep_the_name_of_their_reference() -> None:
    content = "See [the guide] or\n\n- [The guide][]\n\n[the guide]: g.md\n"
    assert sources(content) == ['See <g id="1">the guide</g> or', '<g id="1">The guide</g>']
    filled = fill(content, 'Siehe <g id="1">Handbuch</g>', '<g id="1">Das Handbuch</g>')
    assert filled == "Siehe [Handbuch][the guide]\n\n- [Das Handbuch][The guide]\n\n[the guide]: g.md\n"


def test_a_backslash_at_the_end_of_emphasis_stays_text() -> None:
    document = open_document(b"*house*\n\nA path\nand more\n", name="a.md")
    filled = document.fill([UnitTranslation(text="a\\"), UnitTranslation(text="C:\\ und\\ mehr")])
    assert filled.startswith(b"*a\\\\*\n")
    assert [unit.source for unit in open_document(filled, name="a.md").units] == ["a\\", "C:\\ und\\ mehr"]
