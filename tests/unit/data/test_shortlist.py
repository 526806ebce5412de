"""Lexical shortlists."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from dragoman.data.shortlist import Shortlist, ShortlistConfig, build_shortlist
from dragoman.data.tokenizers import BpeConfig, Tokenizer, WordConfig
from dragoman.errors import DataError

PAIRS = [
    ("a cat sits", "eine Katze sitzt"),
    ("a dog sits", "ein Hund sitzt"),
    ("Anna sits", "Anna sitzt"),
    ("the sea", "das Meer"),
    ("a cat and a dog", "eine Katze und ein Hund"),
]


def words_for(shortlist: Shortlist, tokenizer: Tokenizer, text: str) -> set[str]:
    ids = shortlist.tokens_for(tokenizer.source.encode(text))
    assert ids.tolist() == sorted({*ids.tolist()})
    return {token.removeprefix("▁") for token in tokenizer.target.ids_to_tokens(ids) if not token.startswith("<")}


@pytest.mark.parametrize("shared", [True, False])
def test_shortlist_holds_translations(shared):
    tokenizer = Tokenizer.train(lambda: PAIRS, WordConfig(shared=shared))
    shortlist, pairs = build_shortlist(PAIRS, tokenizer, ShortlistConfig(frequent=1, per_token=1))
    assert pairs == len(PAIRS)
    copied = {"sits", "cat"} if shared else set()
    assert words_for(shortlist, tokenizer, "cat sits") == {"Katze", "sitzt"} | copied
    assert "Anna" in words_for(shortlist, tokenizer, "Anna")
    assert words_for(shortlist, tokenizer, "") == {"sitzt"}
    assert {0, 1, 2, 3} <= {*shortlist.always.tolist()}
    assert shortlist.matches_vocabs(source=len(tokenizer.source), target=len(tokenizer.target))
    assert not shortlist.matches_vocabs(source=len(tokenizer.source), target=5)
    assert not shortlist.matches_vocabs(source=len(tokenizer.source) + 1, target=len(tokenizer.target))


def test_bytes_are_always_candidates():
    tokenizer = Tokenizer.train(lambda: PAIRS, BpeConfig(shared=True, vocab_size=300, byte_fallback=True))
    shortlist, _ = build_shortlist(PAIRS, tokenizer, ShortlistConfig(frequent=0, per_token=1))
    assert {*tokenizer.target.encode("猫")} <= {*shortlist.tokens_for(tokenizer.source.encode("a cat")).tolist()}


def test_shortlist_survives_a_file(tmp_path):
    tokenizer = Tokenizer.train(lambda: PAIRS, WordConfig())
    shortlist, _ = build_shortlist(PAIRS, tokenizer, ShortlistConfig())
    path = tmp_path / "shortlist.safetensors"
    shortlist.save(path)
    again = Shortlist.load(path)
    for name in ("always", "values", "lengths"):
        np.testing.assert_array_equal(getattr(again, name), getattr(shortlist, name))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match=r"damaged or not a safetensors file .*; export the model again"):
        Shortlist.load(path)
    for ids in (np.zeros((), np.int32), np.zeros((2, 2), np.int32), np.zeros(3, np.float32)):
        save_file({"always": ids, "values": ids, "lengths": ids}, path)
        with pytest.raises(DataError, match=r"shortlist\.safetensors: no shortlist \(ids of type .*; export the model"):
            Shortlist.load(path)
    save_file({"always": np.zeros(3, np.int32)}, path)
    with pytest.raises(DataError, match=r"shortlist\.safetensors: no shortlist \('values'\)"):
        Shortlist.load(path)
    with pytest.raises(DataError, match="no such file; make one by: dragoman export RUN --shortlist"):
        Shortlist.load(tmp_path / "nothing")
    with pytest.raises(DataError, match="inconsistent lengths"):
        Shortlist(shortlist.always, shortlist.values, shortlist.lengths[:-1] * 0)
    with pytest.raises(DataError, match="no pairs of texts"):
        build_shortlist([], tokenizer, ShortlistConfig())
