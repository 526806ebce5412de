"""Words that a model cannot read."""

import pytest

from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.data.tokenizers import CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.inference.control.unreadable_words import find_unreadable


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    letters = "the quick brown fox jumps over lazy dogs, THE QUICK BROWN FOX JUMPS OVER LAZY DOGS. 0123456789 '(%)"
    return Tokenizer.train(lambda: [(letters, "a")], CharacterConfig(byte_fallback=False)).source


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("press (^T), or ^T^Z.", ["^T", "^T^Z"]),
        ("he met Дмитрий.", ["Дмитрий"]),
        ("the “quick” fox", []),
        ("the quick } fox", ["}"]),
        ("10€, dogs", ["€"]),
        ("fox `%s' or `%d'", ["`", "`"]),
        ("x < y<z", ["<", "y<z"]),
        ("I like 東京 dogs", ["東京"]),
        ("foxjumpsoverthelazydogsfox^2", ["^"]),
        ("the quick fox", []),
    ],
)
def test_words_with_unknown_letters_are_kept(side, text, words):
    found = find_unreadable(text, find_placeholders(text), side)
    assert [one.text for one in found] == words
    assert [text[one.start : one.end] for one in found] == words


def test_words_end_at_tags(side):
    text = "the Дом“”¶ «fox»"
    cuts = [text.index(one) for one in "“¶«f»"]
    assert [one.text for one in find_unreadable(text, [], side, cuts=sorted(cuts))] == ["Дом", "¶"]
