"""Alignment error rate: examples worked by hand, what must hold, and the gold files as they are."""

import doctest
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman.evaluation.alignment_error_rate
from dragoman.errors import DataError
from dragoman.evaluation.alignment_error_rate import (
    GoldAlignment,
    alignment_agreement,
    alignment_scores,
    read_gold_alignments,
)

links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


def gold(sure, possible=frozenset()):
    return GoldAlignment(frozenset(sure), frozenset(sure) | frozenset(possible))


golds = st.builds(gold, links, links)


def test_docstring_examples():
    assert doctest.testmod(dragoman.evaluation.alignment_error_rate).attempted > 0
    assert doctest.testmod(dragoman.evaluation.alignment_error_rate).failed == 0


def test_scores_computed_by_hand():
    """Two sentences, counted together: |A| = 5, |S| = 4, |A ∩ S| = 2, |A ∩ P| = 3."""
    found = [{(0, 0), (1, 1), (2, 2)}, {(0, 1), (1, 0)}]
    wanted = [gold({(0, 0), (1, 1), (3, 3)}, {(2, 2)}), gold({(0, 0)}, {(1, 1)})]
    scores = alignment_scores(found, wanted)
    assert scores.precision == pytest.approx(3 / 5)
    assert scores.recall == pytest.approx(2 / 4)
    assert scores.error_rate == pytest.approx(1 - (2 + 3) / (5 + 4))
    assert (scores.links, scores.sure) == (5, 4)


def test_scores_without_links():
    assert alignment_scores([set()], [gold({(0, 0)})]).error_rate == 1.0
    assert alignment_scores([set()], [gold(set())]).error_rate == 0.0


@given(st.lists(st.tuples(golds, links), min_size=1, max_size=5), st.randoms())
def test_links_between_sure_and_possible_have_no_error(sentences, random):
    """Och and Ney (2003), section 4.2: the error rate leaves open which of the possible links are made."""
    found = [one.sure | {link for link in one.possible if random.random() < 0.5} for one, _ in sentences]
    scores = alignment_scores(found, [one for one, _ in sentences])
    assert scores.error_rate == pytest.approx(0.0)
    assert (scores.precision, scores.recall) == (1.0, 1.0)


@given(st.lists(st.tuples(golds, links), min_size=1, max_size=5))
def test_error_rate_with_sure_links_only_is_one_minus_f1(sentences):
    found = [own for _, own in sentences]
    wanted = [gold(one.sure) for one, _ in sentences]
    scores = alignment_scores(found, wanted)
    assert 0.0 <= scores.error_rate <= 1.0
    assert 1 - scores.error_rate == pytest.approx(alignment_agreement(found, [one.sure for one in wanted]))
    if scores.links and scores.sure and scores.precision + scores.recall:
        harmonic = 2 * scores.precision * scores.recall / (scores.precision + scores.recall)
        assert 1 - scores.error_rate == pytest.approx(harmonic)


def test_gold_links_are_counted_from_one():
    (one, empty) = read_gold_alignments(["3-4 1p1", ""], name="gold")
    assert one == GoldAlignment(frozenset({(2, 3)}), frozenset({(2, 3), (0, 0)}))
    assert empty == GoldAlignment(frozenset(), frozenset())


@pytest.mark.parametrize("link", ["3", "3_4", "0-1", "1p0", "a-b", "1-2-3"])
def test_invalid_link_is_an_error_with_its_line(link):
    with pytest.raises(DataError, match=f"talp: line 2: '{link}' is not a link"):
        read_gold_alignments(["1-1", link], name="talp")


def test_unequal_numbers_of_sentences_are_an_error():
    with pytest.raises(DataError, match="links of 1 sentence, but gold links of 2"):
        alignment_scores([set()], [gold(set())] * 2)


@pytest.mark.parametrize(("sentences", "gold_file", "number"), [("de-en", "deen", 508), ("en-fr", "enfr", 447)])
def test_shared_gold_alignments_match_their_sentences(shared_data, sentences, gold_file, number):
    folder = shared_data / "word_alignment"
    with gzip.open(folder / f"{gold_file}.talp.gz", "rt") as file:
        read = read_gold_alignments(file, name=gold_file)
    with gzip.open(folder / f"test.{sentences}.gz", "rt", encoding="utf-8") as file:
        pairs = [[len(side.split()) for side in line.split("|||")] for line in file]
    assert len(read) == len(pairs) == number
    for one, (source, target) in zip(read, pairs, strict=True):
        assert all(at < source and to < target for at, to in one.possible)
    assert alignment_scores([one.sure for one in read], read).error_rate == 0.0
