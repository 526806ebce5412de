"""The alignment error rate equals NLTK's on its documented example and on random links; the gold has its published
size."""

import gzip

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.evaluation.alignment_error_rate import GoldAlignment, alignment_scores, read_gold_alignments

metrics = pytest.importorskip("nltk.translate.metrics", reason="nltk comes with rouge-score, the extra `rouge`")
links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


def test_nltk_example():
    """One of three sure links is among three hypotheses: 1 - (1 + 1) / (3 + 3), as in NLTK's documentation."""
    gold = GoldAlignment(sure=frozenset({(0, 0), (1, 1), (2, 2)}), possible=frozenset({(0, 0), (1, 1), (2, 2)}))
    assert alignment_scores([{(0, 0), (1, 2), (2, 1)}], [gold]).error_rate == 0.6666666666666667


@given(links, links, links)
def test_random_links_equal_nltk(found, sure, more):
    assume(found or sure)
    gold = GoldAlignment(sure=sure, possible=sure | more)
    expected = metrics.alignment_error_rate(sure, found, sure | more)
    assert alignment_scores([found], [gold]).error_rate == pytest.approx(expected)


def test_hansards_gold_has_its_published_size(shared_data):
    """Mihalcea and Pedersen (2003): 447 sentences, 4,038 sure links and 13,400 possible links."""
    with gzip.open(shared_data / "word_alignment" / "enfr.talp.gz", "rt") as file:
        gold = read_gold_alignments(file, name="enfr")
    sure, possible = (sum(len(getattr(one, kind)) for one in gold) for kind in ("sure", "possible"))
    assert (len(gold), sure, possible - sure) == (447, 4038, 13_400)
