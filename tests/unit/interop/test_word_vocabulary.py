"""Tokenizers of vocabularies that are lists of tokens."""

import io
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.interop.word_vocabulary import (
    byte_pair_encoding,
    read_codes,
    sentencepiece_pieces,
    split_by_white_space,
    split_into_characters,
)

SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
CORPUS = ["the lowest newer wider low lower", "new widest lows low é naïve newest", "the the lower wide wide"]


def test_words_are_separated_by_white_space() -> None:
    tokenizer = split_by_white_space([*SYMBOLS, "two", "dogs"], "<unk>", order=[1, 3, 2, 2, 0, 4, 5])
    assert tokenizer.encode("two  cats dogs") == [5, 1, 6]
    assert tokenizer.decode([5, 6]) == "two dogs"


def test_parts_of_words_need_their_codes() -> None:
    with pytest.raises(DataError, match="there are no codes"):
        split_by_white_space([*SYMBOLS, "do@@", "gs"], "<unk>", order=[1, 3, 2, 2])


@pytest.mark.parametrize("lowercase", [False, True])
def test_characters_have_an_escaped_space(lowercase: bool) -> None:
    order = [1, 3, 2, 2, 0, 4, 5, 6]
    tokenizer = split_into_characters([*SYMBOLS, "a", "b", "▁"], "<unk>", order=order, lowercase=lowercase)
    assert tokenizer.encode("a bAx") == [5, 7, 6, 5 if lowercase else 1, 1]
    assert tokenizer.decode([5, 7, 6]) == "a b"
    streaming = tokenizer.streaming_decoder()
    assert "".join([*map(streaming.add, [5, 7, 6]), streaming.finish()]) == "a b"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("#version: 0.1\na b\n", "version 0.1"),
        ("a </w>\n", "version 0.1"),
        ("#version: 0.2\nab\n", "line 2 is not a pair"),
        ("a b c d\n", "line 1 is not a pair"),
        ("\n", "no merges"),
    ],
)
def test_invalid_codes_are_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bpecodes"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_codes(path)


def test_codes_of_fastbpe_have_counts(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    path.write_text("t h 31\nth e</w> 12\n")
    assert read_codes(path) == [("t", "h"), ("th", "e</w>")]


@given(texts=st.lists(st.text("lowestnwidr éxyz.", max_size=19), max_size=5))
def test_tokens_equal_those_of_subword_nmt(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe", reason="needs the package subword-nmt")
    learn_bpe = pytest.importorskip("subword_nmt.learn_bpe")
    codes = io.StringIO()
    learn_bpe.learn_bpe(io.StringIO("\n".join(CORPUS)), codes, 13)
    path = tmp_path_factory.mktemp("codes") / "codes"
    path.write_text(codes.getvalue())
    reference = apply_bpe.BPE(io.StringIO(codes.getvalue()))
    tokens = [*SYMBOLS, *sorted({token for text in CORPUS for token in reference.segment(text).split()})]
    order = [1, 3, 2, 2, 0, *range(4, len(tokens))]
    tokenizer = byte_pair_encoding(tokens, "<unk>", path, order=order)
    for text in [*texts, *CORPUS]:
        expected = [order.index(tokens.index(one)) if one in tokens else 1 for one in reference.segment(text).split()]
        assert tokenizer.encode(text) == expected
        if 1 not in expected:
            assert tokenizer.decode(expected) == " ".join(text.split())


def test_pieces_are_numbered_by_the_vocabulary(tmp_path: Path) -> None:
    model = io.BytesIO()
    options = {"vocab_size": 41, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS * 9), model_writer=model, **options)
    path = tmp_path / "sentencepiece.bpe.model"
    path.write_bytes(model.getvalue())
    judge = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = sorted({piece for text in CORPUS[:2] for piece in judge.encode(text, out_type=str)})
    tokens = [*SYMBOLS, *pieces]
    order = [1, 3, 2, 2, 0, *range(4, len(tokens))]
    tokenizer = sentencepiece_pieces(tokens, path, order=order)
    for text in [*CORPUS, "lower\u3042 low", ""]:
        found = judge.encode(text, out_type=str)
        assert tokenizer.encode(text) == [order.index(tokens.index(one)) if one in tokens else 1 for one in found]
    assert tokenizer.decode(tokenizer.encode(CORPUS[0])) == CORPUS[0]
