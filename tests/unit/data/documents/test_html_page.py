"""HTML pages: what is a unit, and which bytes a translation changes."""

import pytest

from dragoman.data.documents.document import UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.errors import DataError


def sources(page: str | bytes) -> list[str]:
    content = page.encode() if isinstance(page, str) else page
    document = open_document(content, name="page.html")
    assert identity(document) == content
    return [unit.source for unit in document.units]


def fill(page: str | bytes, *translations: str | None, language: str | None = None) -> str:
    content = page.encode() if isinstance(page, str) else page
    document = open_document(content, name="page.html", target_language=language)
    return document.fill([None if one is None else UnitTranslation(text=one) for one in translations]).decode()


def test_blocks_split_the_text_and_inline_elements_do_not() -> None:
    assert sources("<div>One <b>big</b> house<p>Two<ul><li>Three<li>Four</ul>Five</div>") == [
        "One <b>big</b> house",
        "Two",
        "Three",
        "Four",
        "Five",
    ]


def test_tags_around_a_whole_text_are_no_part_of_it() -> None:
    assert sources('<p><b><a href="x">Open it</a></b></p>') == ["Open it"]
    assert fill('<p> <b><a href="x">Open it</a></b></p>', "Abrir") == '<p> <b><a href="x">Abrir</a></b></p>'


def test_translated_tags_keep_their_attributes() -> None:
    page = "<p>A <a href='x?a=1&b=2' CLASS=y>red</a> <em>house</em>.</p>"
    wanted = "<p>Uma <em>casa</em> <a href='x?a=1&b=2' CLASS=y>vermelha</a>.</p>"
    translation = "Uma <em>casa</em> <a href='x?a=1&b=2' CLASS=y>vermelha</a>."
    assert fill(page, translation) == wanted


def test_scripts_styles_code_and_hidden_text_stay() -> None:
    page = (
        "<style>p { content: 'Text' }</style><script>if (a < b) { x('Text</p>') }</script><pre>Text <b>x</b></pre>"
        "<!-- Text --><div translate=no>Text <p>more</p></div><p class='notranslate'>Text<svg><title>T</title></svg>"
    )
    assert sources(page) == []


def test_code_is_a_protected_part_of_a_sentence() -> None:
    page = "<p>Call <code>f(&lt;x&gt;)</code> first.</p>"
    assert sources(page) == ["Call <code>f(&lt;x&gt;)</code> first."]
    assert sources("<p><code>f(x)</code> 7</p>") == []


def test_attributes_for_readers_are_units() -> None:
    page = """<html><head><title>Shop</title><meta name="description" content="All 'news'"><meta charset=utf-8></head>
<p title="A &quot;tip&quot;">See <img src=a.png alt=Picture> now</p><input type=submit value='Send'><input value=abc>"""
    assert sources(page) == ["Shop", "All 'news'", 'A "tip"', "See <img src=a.png alt=Picture> now", "Picture", "Send"]
    filled = fill(page, None, None, 'x"y', "Ver <img src=a.png alt=Picture> agora", "Foto nova", "it's")
    assert """<p title="x&quot;y">Ver <img src=a.png alt="Foto nova"> agora</p>""" in filled
    assert "value='it&#39;s'" in filled


def test_buttons_and_menus_have_texts_of_their_own() -> None:
    page = "<button>Save</button> <button>Quit</button><select><option>one<option>two</select>"
    assert sources(page) == ["Save", "Quit", "one", "two"]


def test_line_breaks_split_outside_of_inline_tags_only() -> None:
    assert sources("<p>Main street 5<br>Berlin</p>") == ["Main street 5", "Berlin"]
    assert sources("<p>So <b>one<br>two</b> three</p>") == ["So <b>one<br>two</b> three"]


def test_white_space_and_entities_of_unchanged_texts_stay() -> None:
    page = "<p>\n  A&nbsp;b &eacute;\n   c</p>\r\n<p>d</p>"
    assert sources(page) == ["A&nbsp;b &eacute;\n   c", "d"]
    assert fill(page, None, "e") == page.replace("<p>d", "<p>e")


def test_root_names_the_target_language() -> None:
    page = '<html lang="en"><p lang="fr">Texte</p></html>'
    assert fill(page, None, language="de") == '<html lang="de"><p lang="fr">Texte</p></html>'


def test_other_encodings_are_kept_and_lacking_characters_become_references() -> None:
    page = '<meta charset="iso-8859-1"><p>Caf\u00e9</p>'.encode("latin-1")
    document = open_document(page, name="page.html")
    assert document.units[0].source == "Caf\u00e9"
    filled = document.fill([UnitTranslation(text="Caf\u00e9 \u0416")])
    assert filled == '<meta charset="iso-8859-1"><p>Caf\u00e9 &#1046;</p>'.encode("latin-1")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"<p>\xff</p>", "is not UTF-8 text"),
        (b"<meta charset=klingon><p>a</p>", "encoding 'klingon' is unknown"),
        (b"<meta charset=zlib><p>a</p>", "encoding 'zlib' is unknown"),
        (b"<b>" * 300 + b"x", "more than 256 elements"),
    ],
)
def test_unreadable_pages_are_refused(content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        open_document(content, name="page.html")


@pytest.mark.parametrize("part", ["<a ", '<a ="', "<!--", "</b>", "<b><i></b>", "<", "<![CDATA[", "<p><b>x", "<title>"])
def test_hostile_pages_take_linear_time(part: str) -> None:
    page = part * (50_000 // len(part)) + '=">"'
    assert len(sources(page)) <= len(page)
