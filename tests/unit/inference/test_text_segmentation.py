"""Splitting of texts that are too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference.text_segmentation import split_long_text


@pytest.mark.parametrize(
    ("text", "longest", "expected"),
    [
        ("short enough", 20, ["short enough"]),
        ("One sentence. Another one, here.", 20, ["One sentence.", "Another one, here."]),
        ("one clause, then another clause", 20, ["one clause,", "then another clause"]),
        ("no mark between any of these words", 20, ["no mark between", "any of these words"]),
        ("unbroken" * 3, 12, ["unbrokenunbr", "okenunbroken"]),
        ("我们走。他们来了。", 5, ["我们走。", "他们来了。"]),
    ],
)
def test_long_texts_are_split_near_the_middle(text, longest, expected):
    assert split_long_text(text, lambda piece: len(piece) <= longest) == expected


@given(st.text(), st.integers(1, 7))
def test_splitting_drops_white_space_only(text, longest):
    pieces = split_long_text(text, lambda piece: len(piece) <= longest)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(len(piece) <= longest for piece in pieces)
