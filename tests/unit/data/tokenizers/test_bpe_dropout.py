"""BPE dropout: limits, seed and rate."""

import numpy as np
import pytest

from dragoman.data.tokenizers import BpeConfig, LanguageTokenizer, Tokenizer, UnigramConfig
from dragoman.data.tokenizers.bpe_dropout import MAX_WORD_LENGTH

WORDS = ["banana", "bandana", "ananas", "an", "band", "anna", "nab", "aaaa", "aaaaaaa", "naan"]
PAIRS = [(" ".join(WORDS[i:] + WORDS[:i]), " ".join(WORDS[: i + 1])) for i in range(len(WORDS))] * 2
TEXTS = ["banana bandana, aaaaa", "", "nab Ж naan 12 <0x41>", *(" ".join(WORDS[i : i + 3]) for i in range(8))]


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    return Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=300)).source


def drawn(side: LanguageTokenizer, texts: list[str], probability: float, seed: int = 1) -> list[list[int]]:
    return side.encode_with_dropout(texts, probability=probability, generator=np.random.default_rng(seed))


def test_zero_dropout_equals_the_library(side):
    assert drawn(side, TEXTS, 0.0) == side.encode_batch(TEXTS)


def test_zero_dropout_equals_the_library_without_bytes():
    side = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=30, byte_fallback=False)).source
    assert drawn(side, TEXTS, 0.0) == side.encode_batch(TEXTS)


def test_full_dropout_gives_characters(side):
    [ids] = drawn(side, ["banana, aaa"], 1.0)
    assert side.ids_to_tokens(ids) == [*"▁banana", "<0x2C>", *"▁aaa"]


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_text(side, probability):
    assert [side.decode(ids) for ids in drawn(side, TEXTS, probability)] == [side.normalize(text) for text in TEXTS]


def test_generator_determines_the_tokens(side):
    texts = TEXTS * 5
    assert drawn(side, texts, 0.3, seed=5) == drawn(side, texts, 0.3, seed=5)
    assert drawn(side, texts, 0.3, seed=5) != drawn(side, texts, 0.3, seed=7)


def test_word_has_many_segmentations(side):
    assert len({tuple(ids) for ids in drawn(side, ["banana"] * 200, 0.3)}) > 5


def test_merge_is_skipped_at_the_given_rate():
    side = Tokenizer.train(lambda: [("ab ab", "ab")] * 3, BpeConfig(vocab_size=280)).source
    assert side.ids_to_tokens(side.encode("ab")) == ["▁ab"]
    tries = 20_000
    whole = sum(len(ids) == 1 for ids in drawn(side, ["ab"] * tries, 0.25))
    # Two merges, of which only one at a time can be made: each gets one chance.
    assert whole / tries == pytest.approx(0.75**2, abs=0.02)


def test_overlong_word_has_no_dropout(side):
    texts = ["banana" * MAX_WORD_LENGTH, "banana"]
    assert drawn(side, texts, 0.9)[0] == side.encode(texts[0])


def test_other_models_refuse_dropout():
    side = Tokenizer.train(lambda: PAIRS, UnigramConfig(vocab_size=300)).source
    with pytest.raises(TypeError, match="needs byte pair encoding"):
        drawn(side, TEXTS, 0.1)


def test_real_words_equal_the_library(shared_data):
    from dragoman.data.readers.line_reader import read_lines

    texts = [text for _, text in read_lines(shared_data / "multi30k" / "val.de.gz")]
    side = Tokenizer.train(lambda: [(text, text) for text in texts], BpeConfig(vocab_size=2000)).source
    plain = side.encode_batch(texts)
    assert drawn(side, texts, 0.0) == plain
    longer = sum(map(len, drawn(side, texts, 0.1))) / sum(map(len, plain))
    assert 1.1 < longer < 1.6
