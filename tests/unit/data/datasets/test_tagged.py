"""Labeled words as ids and batches."""

import numpy as np
import pytest
import torch

from dragoman.config import parse
from dragoman.data.batching.example_batches import example_stream, examples_in_order
from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.tagged import TaggedDataConfig, TaggedDataset, encode_words, read_tagged_splits
from dragoman.data.readers.tagged import TaggedSentence
from dragoman.data.tokenizers import BOS, EOS, PAD, UNK, BpeConfig, CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.errors import ConfigError

LABELS = Labels(("N", "V"))
PAIRS = [("two dogs play", "the dogs")] * 3


@pytest.fixture(scope="module")
def characters() -> LanguageTokenizer:
    return Tokenizer.train(lambda: PAIRS, CharacterConfig(byte_fallback=False)).source


def test_first_token_of_each_word_is_found(characters):
    aligned = encode_words(characters, ["two", "dogs"])
    assert characters.ids_to_tokens(aligned.ids) == ["t", "w", "o", "▁", "d", "o", "g", "s"]
    assert aligned.first_tokens == [0, 4]


def test_space_before_the_first_word_is_skipped():
    side = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=300)).source
    aligned = encode_words(side, ["日", "dogs", "日"])
    tokens = side.ids_to_tokens(aligned.ids)
    assert [tokens[first] for first in aligned.first_tokens] == ["<0xE6>", "▁dogs", "<0xE6>"]


@pytest.mark.parametrize("words", [["\u00a0"], ["dogs", "\u00a0", "play"], ["\u2003", "dogs"], ["dogs", "\u00a0"]])
def test_word_without_tokens_is_unk(characters, words):
    aligned = encode_words(characters, words)
    tokens = characters.ids_to_tokens(aligned.ids)
    assert len(aligned.first_tokens) == len(words)
    assert [tokens[first] for first in aligned.first_tokens] == [
        "<unk>" if word.isspace() else word[0] for word in words
    ]
    without = [index for index in aligned.ids if index != UNK]
    assert without == characters.encode(" ".join(words))


def test_words_may_hold_spaces_and_be_absent(characters):
    aligned = encode_words(characters, ["two dogs", "play"])
    assert [characters.ids_to_tokens(aligned.ids)[first] for first in aligned.first_tokens] == ["t", "p"]
    assert encode_words(characters, []) == ([], [])


def test_batch_counts_first_tokens(characters):
    examples = [TaggedSentence(("two", "dogs"), ("V", "N"), 1), TaggedSentence(("do",), ("N",), 4)]
    ids = TaggedDataset.build(examples, characters, LABELS, max_length=99)
    batch = ids.collate(np.array([0, 1]))
    assert batch.labels.tolist() == [[-1, 1, -1, -1, -1, 0, -1, -1, -1, -1], [-1, 0, *[-1] * 8]]
    assert batch.tokens[1].tolist() == [BOS, *characters.encode("do"), EOS, *[PAD] * 6]
    assert batch.lengths.tolist() == [10, 4]
    assert (len(batch), batch.target_count) == (2, 3)
    assert batch.to(torch.device("meta")).labels.shape == batch.labels.shape
    assert (ids.lines, ids.num_truncated, ids.num_unknown) == ((1, 4), 0, 0)


def test_long_sentences_and_unknown_labels_are_counted(characters):
    examples = [
        TaggedSentence(("two", "dogs"), ("V", "N"), 1),
        TaggedSentence(("do", "it"), ("Z", "N"), 4),
        TaggedSentence(("a",), ("Z",), 7),
    ]
    ids = TaggedDataset.build(examples, characters, LABELS, max_length=6)
    batch = ids.collate(np.array([0, 1]))
    assert batch.tokens[0].tolist() == [BOS, *characters.encode("two"), *characters.encode("a b")[1:2], EOS]
    assert batch.labels.tolist() == [[-1, 1, -1, -1, -1, -1], [-1, -1, -1, -1, 0, -1]]
    assert (len(ids), ids.lines, ids.num_truncated, ids.num_unknown) == (2, (1, 4), 2, 2)


def test_stream_and_validation_yield_every_sentence(characters):
    examples = [TaggedSentence(("two",) * (1 + n % 5), ("N",) * (1 + n % 5), n + 1) for n in range(23)]
    ids = TaggedDataset.build(examples, characters, LABELS, max_length=99)
    stream = example_stream(ids, budget=67, seed=3)
    rows = [row for _ in range(stream.batches_per_epoch()) for row in next(stream).rows]
    assert sorted(rows) == list(range(23))
    words = sum(len(example.words) for example in examples)
    assert sum(batch.target_count for batch in examples_in_order(ids, budget=67)) == words


def test_configuration_names_the_files(tmp_path):
    (tmp_path / "train").write_text("".join(f"w{n} N\nx V\n\n" for n in range(29)), encoding="utf-8")
    train = {"kind": "columns", "path": str(tmp_path / "train")}
    parts = read_tagged_splits(parse(TaggedDataConfig, {"train": train, "valid_size": 3}), seed=1)
    assert (len(parts.train), len(parts.valid)) == (26, 3)
    with pytest.raises(ConfigError, match="valid_size has no effect if valid is given"):
        parse(TaggedDataConfig, {"train": train, "valid": train, "valid_size": 5})
