"""A long text in windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.decoding import Window, windows
from dragoman.errors import ConfigError


@pytest.mark.parametrize(
    ("length", "overlap", "expected"),
    [
        (3, 0, [Window(0, 0, 3)]),
        (5, 4, [Window(0, 0, 5)]),
        (13, 0, [Window(0, 0, 5), Window(5, 5, 10), Window(10, 10, 13)]),
        (9, 2, [Window(0, 0, 5), Window(3, 5, 8), Window(6, 8, 9)]),
        (8, 4, [Window(0, 0, 5), Window(1, 5, 6), Window(2, 6, 7), Window(3, 7, 8)]),
        (0, 0, []),
    ],
)
def test_windows_of_five_places(length, overlap, expected):
    assert windows(length, context=5, overlap=overlap) == expected


@given(st.integers(0, 97), st.integers(1, 13), st.data())
def test_every_place_is_counted_once_and_looks_back_as_far_as_was_asked(length, context, data):
    overlap = data.draw(st.integers(0, context - 1))
    found = windows(length, context=context, overlap=overlap)
    assert [place for one in found for place in range(one.counted, one.end)] == list(range(length))
    for one in found:
        assert one.end - one.begin <= context
        assert one.counted - one.begin == min(overlap, one.counted)


@pytest.mark.parametrize("overlap", [-1, 5, 7])
def test_an_overlap_that_leaves_nothing_to_count_is_refused(overlap):
    with pytest.raises(ConfigError, match=rf"overlap = {overlap}: a window of 5 tokens can share 0 to 4 tokens"):
        windows(7, context=5, overlap=overlap)
