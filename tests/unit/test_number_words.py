"""Numbers with their nouns and units."""

import pytest

from dragoman.number_words import counted, singular, with_prefix


def test_number_with_its_noun():
    assert counted(1, "pairs") == "1 pair"
    assert counted(0, "pairs") == "0 pairs"
    assert counted(1234, "target tokens") == "1,234 target tokens"
    assert counted(1, "pairs are longer", "pair is longer") == "1 pair is longer"


@pytest.mark.parametrize(
    ("many", "one"),
    [("entries", "entry"), ("batches", "batch"), ("boxes", "box"), ("losses", "loss"), ("sizes", "size")],
)
def test_singular_of_regular_plurals(many, one):
    assert singular(many) == one


def test_quantity_with_the_prefix_of_its_size():
    assert [with_prefix(value, "FLOP") for value in (0, 7, 1500, 2.7e6, 3.1e15, 4e22)] == [
        "0.0 FLOP",
        "7.0 FLOP",
        "1.5 kFLOP",
        "2.7 MFLOP",
        "3.1 PFLOP",
        "40000.0 EFLOP",
    ]
