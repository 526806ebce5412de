"""Chunks of streams: the available items, and errors after the items before them."""

from collections.abc import Iterator

import pytest

from dragoman.errors import ConfigError
from dragoman.inference.length_batches import check_text
from dragoman.inference.stream_chunks import FlatStream, is_ready, number_chunks


class Pausing(Iterator[str]):
    """Letters that come at once, with a pause at each space."""

    def __init__(self, text: str) -> None:
        self.letters = list(text)

    def __next__(self) -> str:
        while self.letters and self.letters[0] == " ":
            self.letters.pop(0)
        if not self.letters:
            raise StopIteration
        return self.letters.pop(0)

    def is_ready(self, seconds: float) -> bool:
        return self.letters[:1] != [" "]


def test_chunk_ends_where_the_input_pauses():
    chunks = [some for _, some in number_chunks(Pausing("ab cdefg h"), size=3)]
    assert chunks == [["a", "b"], ["c", "d", "e"], ["f", "g"], ["h"]]
    assert list(number_chunks(["ab", "cd"], size=3)) == [(1, ["ab", "cd"])]


def test_flat_stream_is_ready_while_items_are_left():
    source = Pausing("ab c")
    flat = FlatStream(((len(some), iter(some)) for _, some in number_chunks(source, size=3)), source)
    found = []
    for item in flat:
        found.append((item, is_ready(flat)))
    assert found == [("a", True), ("b", False), ("c", True)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_error_comes_after_the_items_before_it(size):
    found = []
    with pytest.raises(TypeError, match=r"^lines\[2\] is None, not a string\. Give a string for each text\.$"):
        found.extend(number_chunks(["a", "b", None, "c"], size=size, name="lines", check=check_text))
    assert [one for _, some in found for one in some] == ["a", "b"]


def test_error_of_the_input_comes_after_its_items():
    def reading() -> Iterator[str]:
        yield "a"
        raise OSError("the disk")

    found = []
    with pytest.raises(OSError, match="the disk"):
        found.extend(number_chunks(reading(), size=5))
    assert found == [(1, ["a"])]


def test_chunk_size_is_checked_at_the_call():
    with pytest.raises(ConfigError, match="chunk = 0"):
        number_chunks([], size=0)
