"""Inline tags: what a model reads, and where tags stand in translations."""

import re

import numpy as np
import pytest

from dragoman.data.markup import MarkupRules, TokenAlignment, parse_inline
from dragoman.data.markup.token_alignment import find_atoms
from dragoman.errors import DataError

HTML, XML = MarkupRules(), MarkupRules(markup="xml")


def place(fragment: str, translation: str, links: str, rules: MarkupRules = HTML) -> str:
    """Return the placed tags; `links` are those of words and punctuation, as `source-target`, counted from 0."""
    parsed = parse_inline(fragment, rules)
    source, target = find_atoms(parsed.text), find_atoms(translation)
    weights = np.zeros((len(target), len(source)))
    for one, other in (link.split("-") for link in links.split()):
        weights[int(other), int(one)] = 1
    return parsed.place(translation, TokenAlignment(tuple(source), tuple(target), weights)).content


@pytest.mark.parametrize(
    ("fragment", "text"),
    [
        ("The <b>red</b> cat", "The red cat"),
        ("a <x/> b", "a b"),
        ("line one<br>line two", "line one line two"),
        ("un<b>believ</b>able", "unbelievable"),
        ("soft<wbr>ware", "software"),
        ("  <p> a &lt; b &amp; c </p>\n", "a < b & c"),
        ("a <b>\n  b</b>", "a b"),
        ("Run <code>ls -l</code>.", "Run ls -l."),
        (f"Run <code>{'x' * 99}</code> now", "Run now"),
        ("<b> </b><i/>", ""),
        ("<svg><text>x</text></svg>One <math>y</math>", "One"),
    ],
)
def test_text_that_the_model_reads(fragment: str, text: str) -> None:
    assert parse_inline(fragment, HTML).text == text


@pytest.mark.parametrize(
    ("fragment", "translation", "links", "expected"),
    [
        ("The <b>red</b> cat", "Le chat rouge", "0-0 2-1 1-2", "Le chat <b>rouge</b>"),
        ("<i>The <b>red</b> cat</i>", "Le chat rouge", "0-0 2-1 1-2", "<i>Le chat <b>rouge</b></i>"),
        ("<b>a</b> <i>b</i>", "B A", "0-1 1-0", "<i>B</i> <b>A</b>"),
        ("see <b>a</b>.", "A sehen.", "0-1 1-0 2-2", "<b>A</b> sehen."),
        # An outlier of the alignment does not stretch an element over the sentence.
        ("<b>a</b> b c d", "A B C D E", "0-0 1-1 2-2 3-3 0-4", "<b>A</b> B C D E"),
        # A gap of one word belongs to the element around it.
        ("<b>give up</b> now", "gib jetzt auf", "0-0 1-2 2-1", "<b>gib jetzt auf</b>"),
        ("one<br>two", "eins zwei", "0-0 1-1", "eins<br>zwei"),
        ("one <x/> two", "zwei eins", "0-1 1-0", "<x/> zwei eins"),
        ("one <x/>.", "eins.", "0-0 1-1", "eins <x/>."),
        ("one.<br><br>two", "Eins. Zwei", "0-0 1-1 2-2", "Eins.<br><br>Zwei"),
        ("<b>one</b><x/> two", "eins zwei", "0-0 1-1", "<b>eins</b><x/> zwei"),
        ("one <x/>two.", "zwei eins.", "0-1 1-0 2-2", "<x/>zwei eins."),
        ("delete <x/>it", "lösch-es", "0-0 1-2", "lösch<x/>-es"),
        ("so<b> </b>click", "sonst, klick", "0-0 1-2", "sonst,<b> </b>klick"),
        ("a <x/>+ b", "A + B", "0-0 1-1 2-2", "A <x/>+ B"),
        ("one <b><x/>two</b>", "eins zwei", "0-0 1-1", "eins <b><x/>zwei</b>"),
        ("one<b> two</b>", "eins zwei", "0-0 1-1", "eins<b> zwei</b>"),
        # Tags inside of a copied word cut it, and of other words get all of it.
        ("Press <b>Ctrl</b><b>N</b>", "CtrlN drücken", "0-1 1-0", "<b>Ctrl</b><b>N</b> drücken"),
        ("H<sub>2</sub>O is wet", "Nass ist H2O", "1-1 2-0", "Nass ist H<sub>2</sub>O"),
        ("<b>re</b>start now", "jetzt neustarten", "0-1 1-0", "jetzt <b>neustarten</b>"),
        ("ein<b>-</b>zwei", "a b", "0-0 2-1", "a <b></b>b"),
        # Names that are copied are aligned to themselves only, whatever the attention says.
        ("The <b>Super</b> key", "Die Taste Super", "0-0 1-1 1-2", "Die Taste <b>Super</b>"),
        ("an MP3 or <i>mp3</i> file", "eine MP3 oder mp3", "0-0 1-1 2-2 1-3", "eine MP3 oder <i>mp3</i>"),
        # Two elements whose words are aligned to the same words share them.
        ("<b>a b</b> <i>c</i>", "A B", "0-0 2-0 1-1", "<i>A</i> <b>B</b>"),
        ("an <a>email</a>.", "eine E-Mail.", "0-0 1-3 2-4", "eine <a>E-Mail</a>."),
        ("click <b>Save…</b>.", "klick Sichern....", "0-0 1-1 2-2 3-3", "klick <b>Sichern...</b>."),
        ("<b>a</b> b.", "A B.", "0-2 1-1 2-0", "A B<b></b>."),
        ("Run <code>ls</code> now", "Jetzt LS ausführen", "0-2 1-1 2-0", "Jetzt <code>ls</code> ausführen"),
        ("a <b>b</b> &amp; c", "x & <y>", "0-0 2-1", "x <b></b>&amp; &lt;y&gt;"),
    ],
)
def test_places_of_tags(fragment: str, translation: str, links: str, expected: str) -> None:
    assert place(fragment, translation, links) == expected


@pytest.mark.parametrize(
    ("fragment", "text", "expected"),
    [
        ("a <![CDATA[b & c]]> d", "a b & c d", "A B &amp; C D"),
        ("a <![CDATA[<b>]]> c", "a <b> c", "A <![CDATA[<b>]]> C"),
        ("a &product; b &eacute;", "a b é", "A &product; B É"),
    ],
)
def test_sections_and_entities_of_xml(fragment: str, text: str, expected: str) -> None:
    assert parse_inline(fragment, XML).text == text
    links = " ".join(f"{number}-{number}" for number in range(len(find_atoms(text))))
    assert place(fragment, text.upper(), links, XML) == expected


def test_ignored_elements_of_xml_stay_byte_for_byte() -> None:
    rules = MarkupRules(markup="xml", ignored=frozenset(["x"]))
    assert (
        place('At <x id="7">{max}</x> most', "Höchstens {max}", "0-0 2-2 4-0", rules) == 'Höchstens <x id="7">{max}</x>'
    )


def test_tags_without_partner_are_placed_and_reported() -> None:
    parsed = parse_inline("a <b>c</i> d", HTML)
    assert parsed.problems == ("</i> ends no element", "<b> has no end tag")
    assert place("a <b>c</i> d", "A C D", "0-0 1-1 2-2") == "A <b>C</i> D"


def test_elements_without_aligned_words_are_reported() -> None:
    placed = parse_inline("a <b>b</b>", XML).place(
        "A", TokenAlignment(((0, 1), (2, 3)), ((0, 1),), np.array([[1.0, 0]]))
    )
    assert placed.content == "A<b></b>"
    assert placed.unplaced == ("<b>",)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DataError, match="more than 256 elements inside of each other"):
        parse_inline("<b>" * 99_999 + "x", HTML)


def test_many_tags_take_linear_time() -> None:
    fragment = "".join(f"w{number}<x/>" for number in range(2000))
    parsed = parse_inline(fragment, XML)
    assert parsed.place("Z", None).content.count("<x/>") == 2000


def test_places_without_alignment_are_proportional() -> None:
    parsed = parse_inline("<x/>a <b>b <i>c</i></b> d", XML)
    assert parsed.place("A B C D E F G H", None).content == "<x/>A B <b>C D <i>E F</i></b> G H"
    guess = TokenAlignment.proportional(parsed.text, "A B C D E F G H")
    assert parsed.place("A B C D E F G H", guess).content == "<x/>A B <b>C D <i>E F</i></b> G H"


def test_code_takes_the_place_of_its_own_words_not_of_equal_ones() -> None:
    source, target = "the main.rs file has main", "o ficheiro main.rs tem principal"
    spans = [[found.span() for found in re.finditer(r"\S+", text)] for text in (source, target)]
    weights = np.zeros((5, 5))
    weights[range(5), [0, 2, 1, 3, 4]] = 1
    parsed = parse_inline("the <em>main.rs</em> file has <code>main</code>", HTML)
    placed = parsed.place(target, TokenAlignment(tuple(spans[0]), tuple(spans[1]), weights))
    assert placed.content == "o ficheiro <em>main.rs</em> tem <code>main</code>"
