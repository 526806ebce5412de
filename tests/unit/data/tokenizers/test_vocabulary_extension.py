"""Extension of vocabularies."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import BpeConfig, CharacterConfig, Tokenizer, TokenizerConfig, UnigramConfig, WordConfig
from dragoman.data.tokenizers.vocabulary_extension import extend_vocab
from dragoman.errors import ConfigError
from tests.property_settings import examples

OLD = [("two dogs play", "zwei Hunde spielen"), ("a dog sleeps", "ein Hund schläft")] * 5
NEW = [("the harbour pilot", "der Hafenlotse"), ("a harbour master", "ein Hafenmeister"), ("ж harbour", "ж Hafen")] * 3
SETTINGS = {
    "bpe": BpeConfig(vocab_size=290),
    "bpe without bytes": BpeConfig(vocab_size=80, byte_fallback=False),
    "bpe for each side": BpeConfig(vocab_size=290, shared=False),
    "characters": CharacterConfig(vocab_size=290),
    "words": WordConfig(),
}


def trained(chosen: TokenizerConfig, *, entries: int = 13) -> tuple[Tokenizer, Tokenizer]:
    before = Tokenizer.train(lambda: OLD, chosen)
    return before, extend_vocab(before, lambda: NEW, num_tokens=entries)


@pytest.mark.parametrize("chosen", SETTINGS.values(), ids=list(SETTINGS))
def test_old_ids_stay_and_new_text_is_shorter(chosen):
    before, after = trained(chosen)
    for old, new in ((before.source, after.source), (before.target, after.target)):
        assert new.model.vocab[: len(old)] == old.model.vocab
        assert len(old) < len(new) <= len(old) + 13
        assert len(set(new.model.vocab)) == len(new)
    assert after.shared == before.shared
    for old, new in ((before.source, after.source), (before.target, after.target)):
        for text in [text for pair in [*OLD, *NEW] for text in pair]:
            ids = new.encode(text)
            assert new.decode(ids) == text or isinstance(chosen, WordConfig)
            assert max(ids) >= len(old) or ids == old.encode(text)
    assert after.source.decode(after.source.encode("harbour")) == "harbour"
    if isinstance(chosen, BpeConfig):
        assert len(after.source.encode("harbour")) < len(before.source.encode("harbour"))


@pytest.mark.parametrize("chosen", SETTINGS.values(), ids=list(SETTINGS))
def test_extended_vocabulary_survives_a_file(chosen, tmp_path):
    _, after = trained(chosen)
    after.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == after.fingerprint
    assert again.source.encode("a harbour ж") == after.source.encode("a harbour ж")


@examples(30)
@given(st.lists(st.text(alphabet="abcde ж", min_size=1, max_size=13), min_size=1, max_size=7), st.integers(1, 11))
def test_text_round_trips_after_extension(texts: list[str], entries: int) -> None:
    before = Tokenizer.train(lambda: OLD, BpeConfig(vocab_size=290))
    after = extend_vocab(before, lambda: [(text, text) for text in texts * 2], num_tokens=entries)
    assert len(after.source) <= len(before.source) + entries
    for text in texts:
        ids = after.source.encode(text)
        assert after.source.decode(ids) == after.source.normalize(text)
        assert max(ids, default=0) >= len(before.source) or ids == before.source.encode(text)
        assert len(ids) <= len(before.source.encode(text))


def test_most_frequent_pair_is_merged_first():
    before = Tokenizer.train(lambda: [("x y z a b c", "x y z a b c")], BpeConfig(vocab_size=290, min_frequency=3))
    after = extend_vocab(before, lambda: [("abab abc", "abab abc"), ("cab", "zz zz")], num_tokens=2)
    assert after.source.model.vocab[len(before.source) :] == ("ab", "▁ab")


@pytest.mark.parametrize("seed", range(7))
def test_extension_equals_training_at_once(seed):
    """Training on two halves of a corpus, one after the other, equals training on all of it with the library."""
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefgh", k=generator.randint(1, 9))) for _ in range(101)]
    texts = [" ".join(generator.choices(words, k=11)) for _ in range(211)]
    pairs = [(text, text) for text in texts]
    whole = Tokenizer.train(lambda: pairs, BpeConfig(vocab_size=407))
    part = Tokenizer.train(lambda: pairs, BpeConfig(vocab_size=311))
    further = extend_vocab(part, lambda: pairs, num_tokens=len(whole.source) - len(part.source))
    assert len(part.source) < len(whole.source)
    assert further.fingerprint == whole.fingerprint


def test_known_text_adds_nothing():
    before = Tokenizer.train(lambda: OLD, WordConfig())
    assert extend_vocab(before, lambda: OLD, num_tokens=5).fingerprint == before.fingerprint
    assert extend_vocab(before, lambda: NEW, num_tokens=0) is before


def test_rare_word_is_not_added():
    before = Tokenizer.train(lambda: OLD, WordConfig(min_frequency=3))
    after = extend_vocab(before, lambda: [("rare", "selten"), *[("harbour", "Hafen")] * 3], num_tokens=5)
    assert set(after.source.model.vocab) - set(before.source.model.vocab) == {"▁harbour", "▁Hafen"}


def test_unigram_model_is_refused():
    before = Tokenizer.train(lambda: OLD, UnigramConfig(vocab_size=290))
    with pytest.raises(ConfigError, match="unigram model cannot be extended"):
        extend_vocab(before, lambda: NEW, num_tokens=5)
