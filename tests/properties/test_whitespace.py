"""Laws of tokenizers that keep white space, and of text that comes in passages or goes out id by id, for any text."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import BEGIN, END, PAD, UNKNOWN, Bpe, Characters, Preparation, Side, Tokenizer, Unigram

TEXTS = ["Two dogs  play.\n", "\tif x == 12:\n\n        pass\n", "日本 语\n a b\n"] * 2
CHOICES = (
    Bpe(vocabulary=300, whitespace="keep"),
    Bpe(vocabulary=300, whitespace="keep", normalisation="nfkc", casing="lower"),
    Bpe(vocabulary=300, whitespace="keep", normalisation="none", split_punctuation=False, split_digits=False),
    Unigram(vocabulary=300, whitespace="keep"),
    Unigram(vocabulary=300, whitespace="keep", normalisation="none", casing="lower", split_punctuation=False),
    Characters(whitespace="keep", normalisation="none"),
    Bpe(vocabulary=300),
    Unigram(vocabulary=300, normalisation="nfkc"),
    Characters(casing="lower"),
)
SIDES = {
    f"{type(choice).__name__}-{choice.normalisation}-{choice.casing}-{choice.whitespace}": Tokenizer.train_on_texts(
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
def test_text_to_ids_to_text_is_the_normalised_text(side: Side, text: str) -> None:
    ids = side.encode(text)
    assert side.decode(ids) == side.normalise(text)
    assert not {PAD, UNKNOWN, BEGIN, END} & set(ids)


@pytest.mark.parametrize("side", PLAIN.values(), ids=PLAIN)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.text(signs))
def test_without_unicode_form_and_casing_it_is_the_text(side: Side, text: str) -> None:
    assert side.decode(side.encode(text)) == text


@given(
    text=any_text,
    form=st.sampled_from(["none", "nfc", "nfkc"]),
    casing=st.sampled_from(["preserve", "lower"]),
)
def test_normalising_twice_is_normalising_once_and_marking_loses_nothing(text: str, form, casing) -> None:
    preparation = Preparation(normalisation=form, casing=casing, whitespace="keep")
    once = preparation.normalise(text)
    assert preparation.normalise(once) == once
    assert preparation.unmark(preparation.mark(once)) == once


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(numbers=st.lists(st.integers(0, 10**6)), prompt=st.text(signs))
def test_what_comes_out_id_by_id_is_the_text_of_all_ids(side: Side, numbers: list[int], prompt: str) -> None:
    before, ids = side.encode(prompt), [number % len(side) for number in numbers]
    decoder = side.decoder(after=before)
    pieces = [decoder.add(index) for index in ids]
    assert side.decode(before) + "".join(pieces) + decoder.finish() == side.decode([*before, *ids])


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(passages=blocks)
def test_the_ids_of_passages_joined_are_those_of_the_text(side: Side, passages: list[str]) -> None:
    ids = side.encode_passages(passages, continues=[number > 0 for number in range(len(passages))])
    assert list(chain.from_iterable(ids)) == side.encode("".join(passages))
