"""Inflections of terms that a corpus has."""

from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.data.terminology.mine_forms import mine_forms

CORPUS = [
    ("a red jacket", "eine rote Jacke"),
    ("the red jackets", "die roten Jacken"),
    ("with red jackets", "mit roten Jacken"),
    ("Red jackets", "Rote Jacken"),
    ("red jacket", "rote Jacke"),
    ("a jacket", "ein Jackett"),
    ("the jacks", "die Jacken"),
    ("a city", "eine Stadt"),
    ("cities", "Städte"),
    ("all cities", "alle Städte"),
    *[("lots of jack", "viele Jackett")] * 5,
]


def test_forms_of_targets_and_sources() -> None:
    pairs = {"red jacket": "rote Jacke", "jacket": "Jacke", "city": "Stadt", "Mac": ""}
    terms = mine_forms(Glossary.from_pairs(pairs), CORPUS).terms
    assert terms == (
        Term(("red jacket", "red jackets"), ("rote Jacke", "roten Jacken")),
        Term(("jacket",), ("Jacke",)),  # hidden by the longer term
        Term(("city", "cities"), ("Stadt", "Städte")),
        Term(("Mac",)),
    )


def test_rare_forms_and_those_of_other_words_are_left_out() -> None:
    glossary = Glossary.from_pairs({"jacket": "Jacke"})
    assert mine_forms(glossary, CORPUS, min_count=1).terms[0].targets == ("Jacke", "Jacken")
    assert mine_forms(glossary, CORPUS, min_count=4).terms[0].targets == ("Jacke",)
    assert mine_forms(glossary, []) == glossary
