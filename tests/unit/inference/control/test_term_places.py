"""Places of terms in translations."""

import numpy as np
import pytest

from dragoman.data.markup import TokenAlignment
from dragoman.data.markup.token_alignment import find_atoms
from dragoman.inference.control.term_places import SourceTerm, Translated


def translated(source: str, output: str, terms: dict[str, tuple[str, ...]], order: str = "") -> Translated:
    """Return a translation whose word `n` translates the word of the source with the number `order[n]`, or `n`."""
    sources, targets = find_atoms(source), find_atoms(output)
    weights = np.zeros((len(targets), len(sources)))
    for row in range(len(targets)):
        weights[row, int(order[row]) if order else min(row, len(sources) - 1)] = 1
    found = [
        SourceTerm(start, start + len(word), forms)
        for word, forms in terms.items()
        for start in [place for place in range(len(source)) if source.startswith(word, place)]
    ]
    return Translated(source, found, output, TokenAlignment(tuple(sources), tuple(targets), weights))


def test_a_missing_term_replaces_aligned_words() -> None:
    place = translated("a red car", "um carro vermelho", {"car": ("viatura", "Viatura")}, "021").missing_place(0)
    assert place is not None
    assert (place.before, place.gap, place.words, place.after) == ("", "um ", "carro", " vermelho")
    assert place.forms == ("viatura",)


def test_terms_follow_from_left_to_right() -> None:
    terms = {"car": ("viatura",), "house": ("lar",)}
    one = translated("house and car", "casa e carro", terms)
    first, second = one.missing_place(0), one.missing_place(5)
    assert first is not None
    assert second is not None
    assert [first.words, second.words] == ["casa", "carro"]
    assert one.missing_place(8) is None


def test_words_of_one_term_are_replaced_together() -> None:
    place = translated("the hard disk is", "o disco rígido é", {"hard disk": ("HD",)}, "0213").missing_place(0)
    assert place is not None
    assert (place.gap, place.words) == ("o ", "disco rígido")


def test_terms_that_are_present_have_no_place() -> None:
    assert translated("a car", "uma viatura", {"car": ("viatura",)}).missing_place(0) is None
    # The word that is aligned belongs to another term.
    terms = {"car": ("viatura",), "van": ("carro",)}
    assert translated("car van", "carro x", terms, "00").missing_place(0) is None


def test_a_term_twice_in_the_source_is_wanted_twice() -> None:
    twice = {"car": ("viatura",)}
    place = translated("car by car", "viatura por carro", twice).missing_place(0)
    assert place is not None
    assert (place.before, place.gap, place.words) == ("viatura ", "por ", "carro")
    assert translated("car by car", "viatura por viaturas", twice).missing_place(0) is None  # an inflection


@pytest.mark.parametrize(
    ("output", "order", "gap"),
    [
        ("Hoje, carro", "001", ""),  # a mark ends what depends on the term
        ("l'auto", "001", "l'"),
        ("viatura carro", "01", ""),  # the word before is a term
        ("(carro", "01", ""),
    ],
)
def test_the_word_before_a_term_may_change(output: str, order: str, gap: str) -> None:
    terms = {"car": ("X",), "other": ("viatura",)}
    place = translated("other car", output, terms if "viatura" in output else {"car": ("X",)}, order).missing_place(0)
    assert place is not None
    assert place.gap == gap


def test_capitals_begin_sentences() -> None:
    forms = ("lar", "Lar", "NASA")
    starts = translated("house", "Casa", {"house": forms}).missing_place(0)
    inside = translated("a house", "a casa", {"house": forms}).missing_place(0)
    assert starts is not None
    assert inside is not None
    assert starts.forms == ("Lar", "NASA")
    assert inside.forms == ("lar", "NASA")
