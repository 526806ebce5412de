"""Imported tokenizers give the tokens and texts of their own libraries, for any text."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import BOS, EOS, PAD, UNK, ImportedTokenizer
from tests.partner_tokenizers import (
    JSON_KINDS,
    SENTENCEPIECE_KINDS,
    imported,
    imported_sentencepiece,
    library,
    processor,
)

ALL = {kind: imported(kind) for kind in JSON_KINDS} | {
    f"{kind}-{shift}": imported_sentencepiece(kind, shift=shift) for kind in SENTENCEPIECE_KINDS for shift in (0, 7)
}
signs = st.sampled_from(["dog", "Größe", " the", "ß", "é", "e\u0301", "▁", " ", "  ", "\n", "\t", "日", "😀", "½", "ﬁ"])
any_text = st.text() | st.lists(signs | st.sampled_from(["<", "</s>", "<extra>", "plain_token", "'", ".", "1"])).map(
    "".join
)
lines = st.lists(st.sampled_from(["dog", "a b", "Größe 12", "日本 語", "x.  y", "don't"]), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", JSON_KINDS)
@given(text=any_text)
def test_json_tokenizer_encodes_and_decodes_as_its_library(kind: str, text: str) -> None:
    side, judge = imported(kind), library(kind)
    expected = judge.encode(text, add_special_tokens=False).ids
    ids = side.encode(text)
    assert [side.order[index] for index in ids] == expected
    special = {judge.token_to_id(one) for one in ("<pad>", "<s>", "</s>")}
    assert side.decode(ids) == judge.decode([one for one in expected if one not in special], skip_special_tokens=True)


@pytest.mark.parametrize("kind", SENTENCEPIECE_KINDS)
@given(text=any_text)
def test_sentencepiece_encodes_and_decodes_as_its_library(kind: str, text: str) -> None:
    judge, side, renumbered = processor(kind), imported_sentencepiece(kind), imported_sentencepiece(kind, shift=7)
    expected = judge.encode(text)
    assert [side.order[index] for index in side.encode(text)] == expected
    assert side.decode(side.encode(text)) == judge.decode(expected)
    assert renumbered.ids_to_tokens(renumbered.encode(text)) == side.ids_to_tokens(side.encode(text))
    assert renumbered.decode(renumbered.encode(text)) == judge.decode(judge.encode(text))


@pytest.mark.parametrize("side", ALL.values(), ids=ALL)
@given(data=st.data())
def test_streamed_text_is_the_decoded_text(side: ImportedTokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(side) - 1), max_size=20) | any_text.map(side.encode))
    cut = data.draw(st.integers(0, len(ids)))
    decoder, whole = side.streaming_decoder(), side.decode(ids)
    pieces = [decoder.add(index) for index in ids]
    assert "".join(pieces) + decoder.finish() == whole
    # Where the part before the cut is complete, the decoder that continues it gives the rest.
    if side.decode(ids[:cut]).strip() and whole.startswith(side.decode(ids[:cut])):
        continued = side.streaming_decoder(after=ids[:cut])
        rest = "".join([continued.add(index) for index in ids[cut:]]) + continued.finish()
        assert side.decode(ids[:cut]) + rest == whole


@pytest.mark.parametrize("side", ALL.values(), ids=ALL)
@given(text=any_text)
def test_spans_are_ordered_and_lie_in_the_text(side: ImportedTokenizer, text: str) -> None:
    ids, spans = side.encode_with_offsets(text)
    assert ids == side.encode(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert spans == sorted(spans)
    for start, end in spans:
        part = text[start:end]
        assert part == part.strip() or not part.strip()


@pytest.mark.parametrize("side", ALL.values(), ids=ALL)
@given(text=any_text)
def test_missing_units_are_reported_only_with_unknown_tokens(side: ImportedTokenizer, text: str) -> None:
    missing = side.missing_units(text, side.encode(text))
    assert bool(missing) <= (UNK in side.encode(text))
    assert all(unit in text for unit in missing)


@pytest.mark.parametrize("side", ALL.values(), ids=ALL)
@given(lines=lines)
def test_passages_have_the_ids_of_their_text(side: ImportedTokenizer, lines: list[str]) -> None:
    passages = [*(f"{line}\n" for line in lines[:-1]), lines[-1]]
    found = side.encode_passages(passages, continues=[n > 0 for n in range(len(passages))])
    assert list(chain.from_iterable(found)) == side.encode("\n".join(lines))


@pytest.mark.parametrize("side", ALL.values(), ids=ALL)
@given(texts=st.lists(any_text, max_size=3))
def test_batch_has_the_ids_of_its_texts(side: ImportedTokenizer, texts: list[str]) -> None:
    assert side.encode_batch(texts) == [side.encode(text) for text in texts]
    assert side.decode([PAD, BOS, EOS]) == ""
