"""Offsets of tokens in the original text."""

import pytest

from dragoman.data.tokenizers import (
    UNK,
    BpeConfig,
    CharacterConfig,
    LanguageTokenizer,
    TextNormalizer,
    Tokenizer,
    UnigramConfig,
    WordConfig,
)
from dragoman.data.tokenizers.offsets import normalize_with_offsets

PAIRS = [("Two dogs play in the snow .", "The dogs, the café and the play. 12 ﬁne"), ("σοφός Σοφία", "e\u0301")] * 4


def side(kind=BpeConfig, **choices) -> LanguageTokenizer:
    return Tokenizer.train(lambda: PAIRS, kind(**choices)).source


def cut(one: LanguageTokenizer, text: str) -> list[tuple[str, str]]:
    """Return each token with its span of the text."""
    ids, spans = one.encode_with_offsets(text)
    assert ids == one.encode(text)
    return list(zip(one.ids_to_tokens(ids), [text[start:end] for start, end in spans], strict=True))


def test_words_have_their_spans():
    one = side(vocab_size=450)
    assert cut(one, "  The\u00a0 dogs,\tplay") == [("▁The", "The"), ("▁dogs", "dogs"), (",", ","), ("▁play", "play")]


def test_lowered_and_composed_characters_have_their_spans():
    one = side(vocab_size=450, casing="lower", normalization="nfkc")
    text = "THE CAFE\u0301 ﬁne"
    assert cut(one, text) == [("▁the", "THE"), ("▁café", "CAFE\u0301"), ("▁fine", "ﬁne")]


def test_byte_tokens_have_the_span_of_their_character():
    one = side(vocab_size=400)
    _, spans = one.encode_with_offsets(" 日本")
    assert spans == [(1, 1), *[(1, 2)] * 3, *[(2, 3)] * 3]  # the space before the first word stands for nothing


@pytest.mark.parametrize("kind", [BpeConfig, UnigramConfig])
def test_unknown_characters_have_spans(kind):
    one = side(kind, vocab_size=120, byte_fallback=False)
    ids, spans = one.encode_with_offsets("dog 日本 .")
    unknown = [span for index, span in zip(ids, spans, strict=True) if index == UNK]
    assert (unknown[0][0], unknown[-1][1]) == (4, 6)


def test_unknown_words_have_spans():
    assert cut(side(WordConfig), "Two  zebras play") == [("▁Two", "Two"), ("<unk>", "zebras"), ("▁play", "play")]


def test_space_token_spans_all_white_space():
    one = side(CharacterConfig)
    assert cut(one, " to \n p") == [("t", "t"), ("o", "o"), ("▁", " \n "), ("p", "p")]


def test_kept_white_space_has_its_span():
    one = side(CharacterConfig, whitespace="keep")
    assert "".join(part for _, part in cut(one, " the  dog ")) == " the  dog "
    assert [part for _, part in cut(one, " a \n▁")] == [" ", "a", " ", "\n", "▁"]


def test_empty_text_has_no_token():
    for one in (side(vocab_size=400), side(CharacterConfig)):
        assert one.encode_with_offsets("") == one.encode_with_offsets(" \n") == ([], [])


@pytest.mark.parametrize(
    ("text", "choices", "expected", "spans"),
    [
        ("e\u0301a", {}, "éa", [(0, 2), (2, 3)]),
        ("q\u0301\u0323a", {}, "q\u0323\u0301a", [(0, 3)] * 3 + [(3, 4)]),  # marks change places
        ("q\u0323\u0301", {}, "q\u0323\u0301", [(0, 1), (1, 2), (2, 3)]),  # these were in order
        ("\u1112\u1161\u11ab가", {}, "한가", [(0, 3), (3, 4)]),  # a Hangul syllable of three letters
        ("\u09c7\u09be", {}, "\u09cb", [(0, 2)]),  # two vowel signs that compose, neither of them a mark that moves
        ("ﬁ½", {"normalization": "nfkc"}, "fi1⁄2", [(0, 1)] * 2 + [(1, 2)] * 3),
        ("İΑΣ", {"casing": "lower"}, "i\u0307ας", [(0, 1), (0, 1), (1, 2), (2, 3)]),
        ("a \u2003b", {}, "a b", [(0, 1), (1, 3), (3, 4)]),
        ("▁\ud800", {}, "_\ufffd", [(0, 1), (1, 2)]),
        ("▁ ", {"whitespace": "keep"}, "▁ ", [(0, 1), (1, 2)]),
        ("a´", {"normalization": "nfkc"}, "a \u0301", [(0, 1), (1, 2), (1, 2)]),
    ],
)
def test_normalization_is_aligned_by_character(text, choices, expected, spans):
    preparation = TextNormalizer(**choices)
    traced = normalize_with_offsets(text, preparation)
    assert (traced.text, traced.spans) == (expected, spans)
    assert preparation.normalize(text) == expected
