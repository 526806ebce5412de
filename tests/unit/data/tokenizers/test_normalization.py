"""Normalization of texts with many combining marks in a row, which Unicode sorts in quadratic time."""

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers.normalization import JOINER, MAX_MARKS, TextNormalizer
from dragoman.data.tokenizers.offsets import normalize_with_offsets
from tests.property_settings import examples

MARKS = "\u0301\u0316\u0344\u0f73\u0f81\uff9e\u3099"
NORMALIZERS = [
    TextNormalizer(normalization=form, casing=casing) for form in ("nfc", "nfkc") for casing in ("preserve", "lower")
]


def longest_run(text: str) -> int:
    runs = "".join("x" if unicodedata.combining(character) else " " for character in text).split()
    return max(map(len, runs), default=0)


@examples(100)
@given(
    runs=st.lists(st.tuples(st.sampled_from("qAß 각"), st.text(MARKS, max_size=97)), max_size=3),
    normalizer=st.sampled_from(NORMALIZERS),
)
def test_runs_of_marks_are_bounded(runs: list[tuple[str, str]], normalizer: TextNormalizer) -> None:
    text = "".join(letter + marks for letter, marks in runs)
    normalized = normalizer.normalize(text)
    assert longest_run(normalized) <= MAX_MARKS
    assert normalizer.normalize(normalized) == normalized
    assert normalize_with_offsets(text, normalizer).text == normalized


@pytest.mark.parametrize("count", [MAX_MARKS, MAX_MARKS + 1, 3 * MAX_MARKS + 1])
def test_only_long_runs_are_separated(count):
    text = "q" + ("\u0301\u0316" * count)[:count] + "a"
    normalized = TextNormalizer().normalize(text)
    assert normalized.count(JOINER) == (count - 1) // MAX_MARKS
    assert sorted(normalized.replace(JOINER, "")) == sorted(text)
    if count <= MAX_MARKS:
        assert normalized == unicodedata.normalize("NFC", text)


def test_joiner_has_the_span_of_the_next_mark():
    text = "q" + "\u0301" * (MAX_MARKS + 1)
    aligned = normalize_with_offsets(text, TextNormalizer())
    assert [aligned.spans[match.start()] for match in re.finditer(JOINER, aligned.text)] == [(31, 32)]


def test_time_is_linear_in_the_number_of_marks():
    """It took 50 s."""
    began = time.monotonic()
    assert len(TextNormalizer().normalize("q" + "\u0316\u0301" * 50_000)) == 103_334
    assert time.monotonic() - began < 5
