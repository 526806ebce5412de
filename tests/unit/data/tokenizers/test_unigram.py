"""Unigram models trained by SentencePiece."""

import pytest

from dragoman.data.readers.line_reader import read_lines
from dragoman.data.tokenizers import BpeConfig, Tokenizer, UnigramConfig
from dragoman.data.tokenizers.trainers import unigram_scores

UNITS = ["▁banana"] * 7 + ["▁bandana"] * 5 + ["▁band"] * 11 + ["▁nab"] * 3 + ["▁ananas"] * 2


def test_scores_descend_and_repeat():
    scores = unigram_scores(lambda: UNITS, vocab_size=10)
    assert 7 <= len(scores) <= 10
    assert "▁band" in scores
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert scores == unigram_scores(lambda: UNITS, vocab_size=10)


def test_frequent_characters_are_tokens():
    assert set("▁band") <= set(unigram_scores(lambda: [*UNITS, "▁x"], vocab_size=14))


def test_rare_characters_leave_room_for_tokens():
    rare = [f"▁{chr(0x4E00 + index)}" for index in range(50)]
    scores = unigram_scores(lambda: UNITS + rare, vocab_size=14)
    assert sum(len(token) == 1 for token in scores) <= 7 < len(scores)


@pytest.mark.parametrize("unit", ["▁\n\n", "\t▁", "▁▁▁", " a", "\r\n"])
def test_kept_white_space_is_learned(unit: str):
    scores = unigram_scores(lambda: [unit] * 9 + ["▁ab"] * 3, vocab_size=20)
    assert set(unit) <= set(scores)


def test_no_text_gives_no_tokens():
    assert unigram_scores(list, vocab_size=5) == {}


def test_unigram_needs_fewer_tokens_than_bpe(shared_data):
    texts = [text for _, text in read_lines(shared_data / "multi30k" / "val.de.gz")]

    def num_tokens(config) -> int:
        language = Tokenizer.train_on_texts(lambda: texts, config).source
        assert 1400 < len(language) <= 1500
        return sum(map(len, language.encode_batch(texts)))

    assert num_tokens(UnigramConfig(vocab_size=1500)) < num_tokens(BpeConfig(vocab_size=1500))
