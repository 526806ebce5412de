"""Windows of a long text and the scored positions in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.inference.generation.perplexity import ScoringWindow, scoring_windows


@pytest.mark.parametrize(
    ("length", "overlap", "expected"),
    [
        (3, 0, [ScoringWindow(0, 0, 3)]),
        (5, 4, [ScoringWindow(0, 0, 5)]),
        (13, 0, [ScoringWindow(0, 0, 5), ScoringWindow(5, 5, 10), ScoringWindow(10, 10, 13)]),
        (9, 2, [ScoringWindow(0, 0, 5), ScoringWindow(3, 5, 8), ScoringWindow(6, 8, 9)]),
        (8, 4, [ScoringWindow(0, 0, 5), ScoringWindow(1, 5, 6), ScoringWindow(2, 6, 7), ScoringWindow(3, 7, 8)]),
        (0, 0, []),
    ],
)
def test_windows_of_five_positions(length, overlap, expected):
    assert scoring_windows(length, context=5, overlap=overlap) == expected


@given(st.integers(0, 97), st.integers(1, 13), st.data())
def test_each_position_is_scored_once_with_overlap(length, context, data):
    overlap = data.draw(st.integers(0, context - 1))
    found = scoring_windows(length, context=context, overlap=overlap)
    assert [place for one in found for place in range(one.scored, one.end)] == list(range(length))
    for one in found:
        assert one.end - one.begin <= context
        assert one.scored - one.begin == min(overlap, one.scored)


@pytest.mark.parametrize("overlap", [-1, 5, 7])
def test_overlap_without_scored_positions_is_refused(overlap):
    with pytest.raises(ConfigError, match=rf"overlap = {overlap}: a window of 5 tokens can share 0 to 4 tokens"):
        scoring_windows(7, context=5, overlap=overlap)
