"""Properties of terms in texts: those of a plain search over all places and phrases."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.terminology.glossary import CaseRule, Glossary, Term, join_forms
from dragoman.data.terminology.glossary_files import parse_glossary, write_tsv
from dragoman.data.terminology.matching import split_units
from dragoman.errors import DataError
from tests.property_settings import examples

words = st.sampled_from(["a", "b", "ab", "c-d", "苹", "果", ","])
phrases = st.lists(words, min_size=1, max_size=3).map(" ".join)
forms = st.text(st.characters(exclude_categories=["Cc", "Co", "Cs"]), min_size=1, max_size=7).filter(str.strip)


def by_comparison(terms: list[str], text: str) -> list[tuple[int, int]]:
    """Return the longest phrases from left to right, by comparison with every term at every place."""
    units, found, place = split_units(text), [], 0
    split = [[unit for unit, _, _ in split_units(term)] for term in terms]
    while place < len(units):
        here = [len(one) for one in split if [unit for unit, _, _ in units[place : place + len(one)]] == one]
        if here:
            found.append((units[place][1], units[place + max(here) - 1][2]))
        place += max(here, default=1)
    return found


@examples(200)
@given(st.lists(phrases, min_size=1, max_size=5), st.lists(words, max_size=11).map(" ".join))
def test_the_longest_phrases_are_found(terms: list[str], text: str) -> None:
    glossary = Glossary.from_pairs([(term, "x") for term in terms])
    assert [(match.start, match.end) for match in glossary.find(text)] == by_comparison(terms, text)


def parsed(source: str, target: str, case: CaseRule) -> Term:
    """Return the term of two texts without bars."""
    return Term.parse(source.replace("|", "/").replace("\\", "/"), join_forms([target]), case=case)


@examples(200)
@given(st.lists(st.builds(parsed, forms, forms, st.sampled_from(["smart", "exact"])), min_size=1, max_size=5))
def test_written_glossaries_are_read(terms: list[Term]) -> None:
    glossary = Glossary(tuple(terms))
    assert parse_glossary(write_tsv(glossary), "tsv") == glossary


@examples(200)
@given(st.binary(max_size=60), st.sampled_from(["tsv", "csv", "tbx"]))
def test_any_content_is_read_or_refused(content: bytes, format_) -> None:
    try:
        read = len(parse_glossary(content, format_)) > 0
    except DataError as error:
        read = str(error).startswith("glossary")
    assert read
