"""A vocabulary that is extended: old ids stay what they were, and new text is spelt in fewer."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.tokenizers import Bpe, Characters, Tokenizer, TokenizerSettings, Unigram, Words
from dragoman.data.tokenizers.extension import extended
from dragoman.errors import ConfigError

OLD = [("two dogs play", "zwei Hunde spielen"), ("a dog sleeps", "ein Hund schläft")] * 5
NEW = [("the harbour pilot", "der Hafenlotse"), ("a harbour master", "ein Hafenmeister"), ("ж harbour", "ж Hafen")] * 3
SETTINGS = {
    "bpe": Bpe(vocabulary=290),
    "bpe without bytes": Bpe(vocabulary=80, byte_fallback=False),
    "bpe for each side": Bpe(vocabulary=290, shared=False),
    "characters": Characters(vocabulary=290),
    "words": Words(),
}


def learnt(chosen: TokenizerSettings, *, entries: int = 13) -> tuple[Tokenizer, Tokenizer]:
    before = Tokenizer.train(lambda: OLD, chosen)
    return before, extended(before, lambda: NEW, entries=entries)


@pytest.mark.parametrize("chosen", SETTINGS.values(), ids=list(SETTINGS))
def test_old_ids_stay_and_new_text_grows_shorter(chosen):
    before, after = learnt(chosen)
    for old, new in ((before.source, after.source), (before.target, after.target)):
        assert new.segmentation.pieces[: len(old)] == old.segmentation.pieces
        assert len(old) < len(new) <= len(old) + 13
        assert len(set(new.segmentation.pieces)) == len(new)
    assert after.shared == before.shared
    for old, new in ((before.source, after.source), (before.target, after.target)):
        for text in [text for pair in [*OLD, *NEW] for text in pair]:
            ids = new.encode(text)
            assert new.decode(ids) == text or isinstance(chosen, Words)
            assert max(ids) >= len(old) or ids == old.encode(text)
    assert after.source.decode(after.source.encode("harbour")) == "harbour"
    if isinstance(chosen, Bpe):
        assert len(after.source.encode("harbour")) < len(before.source.encode("harbour"))


@pytest.mark.parametrize("chosen", SETTINGS.values(), ids=list(SETTINGS))
def test_it_is_kept_in_the_file(chosen, tmp_path):
    _, after = learnt(chosen)
    after.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == after.fingerprint
    assert again.source.encode("a harbour ж") == after.source.encode("a harbour ж")


@settings(max_examples=30)
@given(st.lists(st.text(alphabet="abcde ж", min_size=1, max_size=13), min_size=1, max_size=7), st.integers(1, 11))
def test_texts_come_back_whatever_is_learnt(texts: list[str], entries: int) -> None:
    before = Tokenizer.train(lambda: OLD, Bpe(vocabulary=290))
    after = extended(before, lambda: [(text, text) for text in texts * 2], entries=entries)
    assert len(after.source) <= len(before.source) + entries
    for text in texts:
        ids = after.source.encode(text)
        assert after.source.decode(ids) == after.source.normalise(text)
        assert max(ids, default=0) >= len(before.source) or ids == before.source.encode(text)
        assert len(ids) <= len(before.source.encode(text))


def test_the_most_frequent_pair_is_merged_first():
    before = Tokenizer.train(lambda: [("x y z a b c", "x y z a b c")], Bpe(vocabulary=290, minimum_count=3))
    after = extended(before, lambda: [("abab abc", "abab abc"), ("cab", "zz zz")], entries=2)
    assert after.source.segmentation.pieces[len(before.source) :] == ("ab", "▁ab")


@pytest.mark.parametrize("seed", range(7))
def test_going_on_is_learning_at_once(seed):
    """By the trainer of the library: a vocabulary learnt in two parts of one corpus is that learnt in one."""
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefgh", k=generator.randint(1, 9))) for _ in range(101)]
    texts = [" ".join(generator.choices(words, k=11)) for _ in range(211)]
    pairs = [(text, text) for text in texts]
    whole = Tokenizer.train(lambda: pairs, Bpe(vocabulary=407))
    part = Tokenizer.train(lambda: pairs, Bpe(vocabulary=311))
    further = extended(part, lambda: pairs, entries=len(whole.source) - len(part.source))
    assert len(part.source) < len(whole.source)
    assert further.fingerprint == whole.fingerprint


def test_nothing_is_learnt_of_nothing_new():
    before = Tokenizer.train(lambda: OLD, Words())
    assert extended(before, lambda: OLD, entries=5).fingerprint == before.fingerprint
    assert extended(before, lambda: NEW, entries=0) is before


def test_a_word_that_is_too_rare_to_be_learnt_is_not_added():
    before = Tokenizer.train(lambda: OLD, Words(minimum_count=3))
    after = extended(before, lambda: [("rare", "selten"), *[("harbour", "Hafen")] * 3], entries=5)
    assert set(after.source.segmentation.pieces) - set(before.source.segmentation.pieces) == {"▁harbour", "▁Hafen"}


def test_unigram_scores_cannot_be_extended():
    before = Tokenizer.train(lambda: OLD, Unigram(vocabulary=290))
    with pytest.raises(ConfigError, match="unigram model cannot be extended"):
        extended(before, lambda: NEW, entries=5)
