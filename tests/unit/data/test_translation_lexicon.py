"""Lexical translation probabilities of IBM Model 1."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.shortlist import ITERATIONS, sample_evenly, train_lexicon

SOURCES, TARGETS = 5, 7
PAIRS = st.lists(
    st.tuples(
        st.lists(st.integers(0, SOURCES - 1), max_size=4),
        st.lists(st.integers(0, TARGETS - 1), max_size=4),
    ),
    min_size=1,
    max_size=6,
)


def by_the_book(pairs) -> dict[tuple[int, int], float]:
    """Train Model 1 by its definition, with dictionaries."""
    table = {(s, t): 1.0 for source, target in pairs for s in [*source, SOURCES] for t in target}
    for _ in range(ITERATIONS):
        counts = defaultdict(float)
        for source, target in pairs:
            for t in target:
                total = sum(table[s, t] for s in [*source, SOURCES])
                for s in [*source, SOURCES]:
                    counts[s, t] += table[s, t] / total
        sums = defaultdict(float)
        for (s, _), count in counts.items():
            sums[s] += count
        table = {(s, t): counts[s, t] / sums[s] for s, t in table}
    return table


@given(PAIRS)
def test_probabilities_equal_plain_model_1(pairs):
    found = train_lexicon(pairs, source_size=SOURCES, target_size=TARGETS)
    columns = zip(found.source.tolist(), found.target.tolist(), found.probability.tolist(), strict=True)
    table = {(s, t): p for s, t, p in columns}
    assert table == pytest.approx(by_the_book(pairs))
    best = found.top_k(2)
    for source in range(SOURCES):
        theirs = sorted((-p, t) for (s, t), p in table.items() if s == source)
        assert best[1][best[0] == source].tolist() == [t for _, t in theirs[:2]]


def test_cooccurring_words_are_disambiguated():
    pairs = [([0, 1], [0, 1]), ([0, 2], [0, 2]), ([1, 2], [2, 1]), ([0], [0])] * 3
    source, target = train_lexicon(pairs, source_size=3, target_size=3).top_k(1)
    np.testing.assert_array_equal(source, target)


@pytest.mark.parametrize(("count", "kept"), [(0, 0), (5, 5), (10, 10), (11, 6), (20, 10), (37, 10), (41, 6)])
def test_sample_is_even(count, kept):
    found = sample_evenly(((str(number), "") for number in range(count)), most=10)
    numbers = [int(number) for number, _ in found]
    assert len(numbers) == kept
    assert len({*np.diff(numbers)}) <= 1
