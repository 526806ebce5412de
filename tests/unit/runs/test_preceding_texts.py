import pytest

from dragoman.data.documents.document import Unit
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.data.tokenizers.reserved_symbols import SOURCE_CONTEXT_SYMBOLS, add_reserved_symbols
from dragoman.errors import ConfigError
from dragoman.runs.preceding_texts import preceding_texts, texts_with_context

PLAIN = Tokenizer.train(lambda: [("a b c", "a b c")] * 3, BpeConfig(vocab_size=300))
WITH_CONTEXT = add_reserved_symbols(PLAIN, SOURCE_CONTEXT_SYMBOLS[:2])


class Page:
    """Document whose units have tags."""

    def __init__(self, name: str) -> None:
        self.format = name
        self.units = [Unit(source=text, markup="html") for text in ("a", "<b>b</b>\n&amp; c", " ", "d", "e")]

    def fill(self, translations):
        raise AssertionError("not filled")


EXPECTED = [(), ("a",), ("a", "b & c"), ("a", "b & c"), ("b & c", "d")]


def test_running_text_has_context_by_default():
    assert preceding_texts(Page("html"), WITH_CONTEXT, {}) == EXPECTED
    assert preceding_texts(Page("html"), PLAIN, {}) is None
    assert preceding_texts(Page("html"), WITH_CONTEXT, {"context": None}) is None


def test_strings_have_context_where_it_is_asked_for():
    assert preceding_texts(Page("po"), WITH_CONTEXT, {}) is None
    assert preceding_texts(Page("po"), WITH_CONTEXT, {"context": "previous"}) == EXPECTED
    with pytest.raises(ConfigError, match="reads single sentences"):
        preceding_texts(Page("po"), PLAIN, {"context": "previous"})
    with pytest.raises(ConfigError, match="Give 'previous' or None"):
        preceding_texts(Page("html"), WITH_CONTEXT, {"context": ["a"]})


def test_paragraphs_of_a_unit_are_context_of_the_next():
    assert texts_with_context(["c", "d"], ("a", "b")) == [("a", "b"), ("a", "b", "c")]
