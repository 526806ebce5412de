"""Texts between tags."""

import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.translation.markup_text import MarkupText

PIECES = st.sampled_from(
    [
        *("<p>", "</p>", "<b class='x'>", "</b>", "<br>", '<img src=a alt="a > b"/>', "<!-- a <b> -->", "<script>"),
        *("</script>", "<code>", "</code>", "</", "<?x ?>", "<", ">", "&", "'", '"', " ", "\n", "one two", "a & b"),
        "&lt;tag&gt; &amp; &nbsp;",
    ]
)
FRAGMENTS = st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join)


@given(FRAGMENTS, st.sampled_from(["html", "xml"]))
def test_a_fragment_with_its_own_texts_is_unchanged(content, markup):
    fragment = MarkupText.parse(content, markup=markup)
    assert fragment.fill(fragment.texts) == content


@given(FRAGMENTS, st.sampled_from(["html", "xml"]))
def test_only_texts_change(content, markup):
    fragment = MarkupText.parse(content, markup=markup)
    filled = fragment.fill([f"<{number}&" for number in range(len(fragment.texts))])
    assert MarkupText.parse(filled, markup=markup).pieces[::2] == fragment.pieces[::2]
    assert [html.unescape(one).strip() for one in MarkupText.parse(filled, markup=markup).pieces[1::2]] == [
        f"<{number}&" for number in range(len(fragment.texts))
    ]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("<p>One <b>two</b> three</p>", ["One", "two", "three"]),
        ("a &lt; b &amp; c", ["a < b & c"]),
        ("<script>if (a < b) { }</script>text", ["text"]),
        ('<p translate="no">keep<b>this</b></p>that', ["that"]),
        ('<p class="x notranslate">keep</p>that', ["that"]),
        ("<code>x<y>z</y></code>after", ["after"]),
        ("<br>one<br/>two", ["one", "two"]),
        ("<!-- no -->yes", ["yes"]),
        (" \n ", []),
    ],
)
def test_texts_of_html(content, texts):
    assert MarkupText.parse(content).texts == texts


def test_ignored_elements_of_xml():
    fragment = MarkupText.parse('Please enter <x id="7">{max}</x> characters.', markup="xml", ignored=["x"])
    assert fragment.texts == ["Please enter", "characters."]


@pytest.mark.parametrize(
    "part", ["<a ", "<b>", "</b>", "<code>", "<!--", "<!", "<![CDATA[", "<?", '<a "', "<a '", "<a class=", "&", "<"]
)
def test_the_time_for_long_input_is_linear(part):
    begin = time.process_time()
    content = part * 10_000
    assert MarkupText.parse(content).fill(MarkupText.parse(content).texts) == content
    assert time.process_time() - begin < 2
