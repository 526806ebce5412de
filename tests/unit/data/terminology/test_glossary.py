"""Glossaries: terms and their forms, and where a text has them."""

import pytest

from dragoman.data.terminology.glossary import MAX_FORMS, Glossary, Term, join_forms, split_forms
from dragoman.data.terminology.source_variants import source_variants
from dragoman.errors import DataError


def found(glossary: Glossary, text: str) -> list[tuple[str, str]]:
    """Return the words of the terms of a text, and their first targets."""
    matches = glossary.find(text)
    assert all(text[one.start : one.end] == one.text for one in matches)
    return [(one.text, one.terms[0].targets[0] if one.terms[0].targets else "") for one in matches]


def test_the_longest_term_is_found() -> None:
    glossary = Glossary.from_pairs({"red": "rot", "red jacket": "rote Jacke", "red jacket pocket": "Tasche"})
    assert found(glossary, "a red jacket and a red, red pocket") == [
        ("red jacket", "rote Jacke"),
        ("red", "rot"),
        ("red", "rot"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("art, Art and ART", ["art", "Art", "ART"]),
        ("artist, article, art-house, smart", []),
        ("(art) art's “art”", ["art", "art", "art"]),
        ("the  art\tof\nwar", ["art\tof\nwar"]),
        ("Apple apple APPLE", ["Apple"]),
        ("e-mail e-mails mail", ["e-mail", "e-mails"]),
        ("U. S. U.S. US", ["U. S.", "U.S."]),
        ("我爱苹果派", ["苹果"]),
        ("का हिन्दी", ["हिन्दी"]),
        ("Über über", ["Über", "über"]),
        ("C++ and C", ["C++"]),
    ],
)
def test_words_and_case(text: str, expected: list[str]) -> None:
    forms = ["art", "art of war", "Apple", "e-mail", "U.S.", "苹果", "हिन्दी", "über", "C++"]
    glossary = Glossary(tuple(Term((form,), ("x",)) for form in forms))
    assert [match.text for match in glossary.find(text)] == expected


def test_case_rules() -> None:
    glossary = Glossary(
        (
            Term(("polish",), ("polieren",), case="exact"),
            Term(("Polish",), ("polnisch",)),
            Term(("IBM",), ("IBM",), case="ignore"),
        )
    )
    assert found(glossary, "Polish polish POLISH ibm") == [
        ("Polish", "polnisch"),
        ("polish", "polieren"),
        ("ibm", "IBM"),
    ]


def test_the_exact_case_is_preferred() -> None:
    glossary = Glossary.from_pairs({"apple": "Apfel", "Apple": ""})
    assert found(glossary, "Apple likes an apple, APPLE") == [("Apple", ""), ("apple", "Apfel"), ("APPLE", "Apfel")]


def test_composed_and_decomposed_letters_are_equal() -> None:
    assert found(Glossary.from_pairs({"café": "Kaffee"}), "un cafe\u0301") == [("cafe\u0301", "Kaffee")]


def test_plurals_of_the_source() -> None:
    glossary = Glossary.from_pairs({"red jacket": "rote Jacke", "bus": "Bus", "city": "Stadt", "boys": "Jungs"})
    assert [match.text for match in glossary.find("red jackets, buses, Cities, boys, boy")] == [
        "red jackets",
        "buses",
        "Cities",
        "boys",
    ]
    assert [match.is_variant for match in glossary.find("bus buses")] == [False, True]
    exact = Glossary(glossary.terms, match_variants=False)
    assert [match.text for match in exact.find("red jackets, buses, boys")] == ["boys"]
    assert source_variants("Jacke", "de") == ()
    assert source_variants("day") == ("days",)


def test_an_own_entry_is_preferred_to_a_plural() -> None:
    glossary = Glossary.from_pairs({"boy": "Junge", "boys": "Jungen"})
    assert found(glossary, "boys") == [("boys", "Jungen")]


def test_terms_with_the_same_source_are_all_found() -> None:
    glossary = Glossary.from_pairs([("bank", "Bank"), ("Bank", "X"), ("bank", "Ufer")])
    [match] = glossary.find("a bank")
    assert [term.targets for term in match.terms] == [("Bank",), ("Ufer",)]


def test_forms_are_split_at_bars() -> None:
    assert split_forms(r"  Jacke |Jacken|| a \| b |Jacke") == ("Jacke", "Jacken", "a | b")
    assert split_forms(join_forms(("x|y", "z"))) == ("x|y", "z")
    term = Term.parse("jacket|coat", "Jacke|Jacken", forbidden="Mantel")
    assert (term.sources, term.targets, term.forbidden) == (("jacket", "coat"), ("Jacke", "Jacken"), ("Mantel",))
    assert Term.parse("Firefox").is_untranslated
    assert not Term.parse("Firefox", forbidden="Feuerfuchs").is_untranslated


def test_phrases_forbidden_everywhere() -> None:
    glossary = Glossary((Term((), forbidden=("Handy",)), Term(("phone",), ("Telefon",))))
    assert glossary.always_forbidden == ("Handy",)
    assert [match.text for match in glossary.find("a phone")] == ["phone"]


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (lambda: Term((), ("x",)), "no source phrase"),
        (lambda: Term(()), "no source phrase"),
        (lambda: Term(("x" * 501,)), "501 characters"),
        (lambda: Term(("a",), ("b\x07c",)), "control characters"),
        (lambda: Term(("a",), ("\ue000",)), "control characters"),
        (lambda: Term(tuple(map(str, range(MAX_FORMS + 1)))), "51 forms"),
        (lambda: Term((" ",), ("b",)), "empty"),
    ],
)
def test_unusable_terms_are_refused(term, message: str) -> None:
    with pytest.raises(DataError, match=message):
        term()
