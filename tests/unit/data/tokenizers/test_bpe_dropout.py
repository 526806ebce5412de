"""BPE dropout: its two ends, its seed, its rate."""

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


def test_without_dropout_it_is_the_segmentation_of_the_library(side):
    assert drawn(side, TEXTS, 0.0) == side.encode_batch(TEXTS)


def test_without_dropout_it_is_the_segmentation_of_the_library_without_bytes():
    side = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=30, byte_fallback=False)).source
    assert drawn(side, TEXTS, 0.0) == side.encode_batch(TEXTS)


def test_all_dropped_gives_characters(side):
    [ids] = drawn(side, ["banana, aaa"], 1.0)
    assert side.ids_to_tokens(ids) == [*"▁banana", "<0x2C>", *"▁aaa"]


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_whatever_is_dropped_the_text_stays(side, probability):
    assert [side.decode(ids) for ids in drawn(side, TEXTS, probability)] == [side.normalize(text) for text in TEXTS]


def test_the_same_generator_gives_the_same_and_another_gives_others(side):
    texts = TEXTS * 5
    assert drawn(side, texts, 0.3, seed=5) == drawn(side, texts, 0.3, seed=5)
    assert drawn(side, texts, 0.3, seed=5) != drawn(side, texts, 0.3, seed=7)


def test_the_same_word_is_cut_in_many_ways(side):
    assert len({tuple(ids) for ids in drawn(side, ["banana"] * 200, 0.3)}) > 5


def test_a_merge_is_left_out_as_often_as_asked():
    side = Tokenizer.train(lambda: [("ab ab", "ab")] * 3, BpeConfig(vocab_size=280)).source
    assert side.ids_to_tokens(side.encode("ab")) == ["▁ab"]
    tries = 20_000
    whole = sum(len(ids) == 1 for ids in drawn(side, ["ab"] * tries, 0.25))
    # Two merges, of which only one at a time can be made: each gets one chance.
    assert whole / tries == pytest.approx(0.75**2, abs=0.02)


def test_a_word_too_long_for_the_steps_keeps_its_plain_segmentation(side):
    texts = ["banana" * MAX_WORD_LENGTH, "banana"]
    assert drawn(side, texts, 0.9)[0] == side.encode(texts[0])


def test_only_byte_pair_encoding_has_merges_to_drop():
    side = Tokenizer.train(lambda: PAIRS, UnigramConfig(vocab_size=300)).source
    with pytest.raises(TypeError, match="needs byte pair encoding"):
        drawn(side, TEXTS, 0.1)


def test_on_real_words_it_is_the_segmentation_of_the_library(shared_data):
    from dragoman.data.readers.text_lines import read_lines

    texts = [text for _, text in read_lines(shared_data / "multi30k" / "val.de.gz")]
    side = Tokenizer.train(lambda: [(text, text) for text in texts], BpeConfig(vocab_size=2000)).source
    plain = side.encode_batch(texts)
    assert drawn(side, texts, 0.0) == plain
    longer = sum(map(len, drawn(side, texts, 0.1))) / sum(map(len, plain))
    assert 1.1 < longer < 1.6
