"""Properties of tokenizers that keep whitespace, of streamed decoding, and of text encoded in passages, for any
text."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import (
    BOS,
    EOS,
    PAD,
    UNK,
    BpeConfig,
    CharacterConfig,
    LanguageTokenizer,
    TextNormalizer,
    Tokenizer,
    UnigramConfig,
)

TEXTS = ["Two dogs  play.\n", "\tif x == 12:\n\n        pass\n", "日本 语\n a b\n"] * 2
CHOICES = (
    BpeConfig(vocab_size=300, whitespace="keep"),
    BpeConfig(vocab_size=300, whitespace="keep", normalization="nfkc", casing="lower"),
    BpeConfig(vocab_size=300, whitespace="keep", normalization="none", split_punctuation=False, split_digits=False),
    UnigramConfig(vocab_size=300, whitespace="keep"),
    UnigramConfig(vocab_size=300, whitespace="keep", normalization="none", casing="lower", split_punctuation=False),
    CharacterConfig(whitespace="keep", normalization="none"),
    BpeConfig(vocab_size=300),
    UnigramConfig(vocab_size=300, normalization="nfkc"),
    CharacterConfig(casing="lower"),
)
SIDES = {
    f"{type(choice).__name__}-{choice.normalization}-{choice.casing}-{choice.whitespace}": Tokenizer.train_on_texts(
        lambda: TEXTS, choice
    ).source
    for choice in CHOICES
}
KEEPING = {name: side for name, side in SIDES.items() if name.endswith("keep")}
PLAIN = {name: side for name, side in KEEPING.items() if "none-preserve" in name}

signs = st.sampled_from("ab▁ <>0x4F1dogsı̇İßΣ\u0301\u00a0\r\n\n\n\t  .日\x1c\u2028")
any_text = st.text(st.characters(exclude_categories=())) | st.text(signs)
# A line that holds a letter or digit may begin a passage; with it go any lines that hold none.
blocks = st.lists(
    st.tuples(
        st.text(signs), st.sampled_from(["a", "Σ", "4", "日"]), st.text(signs), st.text(" \t.▁\n\u0301<", max_size=7)
    ),
    min_size=1,
    max_size=5,
).map(
    lambda rows: [
        f"{a.replace(chr(10), ' ')}{letter}{b.replace(chr(10), ' ')}\n{more}\n" for a, letter, b, more in rows
    ]
)


@pytest.mark.parametrize("side", KEEPING.values(), ids=KEEPING)
@given(text=any_text)
def test_decode_of_encode_is_the_normalized_text(side: LanguageTokenizer, text: str) -> None:
    ids = side.encode(text)
    assert side.decode(ids) == side.normalize(text)
    assert not {PAD, UNK, BOS, EOS} & set(ids)


@pytest.mark.parametrize("side", PLAIN.values(), ids=PLAIN)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.text(signs))
def test_decode_of_encode_is_the_text_without_normalization(side: LanguageTokenizer, text: str) -> None:
    assert side.decode(side.encode(text)) == text


@given(
    text=any_text,
    form=st.sampled_from(["none", "nfc", "nfkc"]),
    casing=st.sampled_from(["preserve", "lower"]),
)
def test_normalization_is_idempotent_and_reversible(text: str, form, casing) -> None:
    preparation = TextNormalizer(normalization=form, casing=casing, whitespace="keep")
    once = preparation.normalize(text)
    assert preparation.normalize(once) == once
    assert preparation.unescape_spaces(preparation.escape_spaces(once)) == once


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(numbers=st.lists(st.integers(0, 10**6)), prompt=st.text(signs))
def test_streamed_text_equals_the_whole_text(side: LanguageTokenizer, numbers: list[int], prompt: str) -> None:
    before, ids = side.encode(prompt), [number % len(side) for number in numbers]
    decoder = side.streaming_decoder(after=before)
    pieces = [decoder.add(index) for index in ids]
    assert side.decode(before) + "".join(pieces) + decoder.finish() == side.decode([*before, *ids])


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(passages=blocks)
def test_ids_of_passages_equal_ids_of_the_text(side: LanguageTokenizer, passages: list[str]) -> None:
    ids = side.encode_passages(passages, continues=[number > 0 for number in range(len(passages))])
    assert list(chain.from_iterable(ids)) == side.encode("".join(passages))
