"""Labelled words as ids and batches."""

import numpy as np
import pytest
import torch

from dragoman.config import parse
from dragoman.data.batching.in_memory import batches_once, example_stream
from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.tagged import TaggedData, TaggedIds, encode_words, read_tagged_parts
from dragoman.data.readers import Tagged
from dragoman.data.tokenizers import BEGIN, END, PAD, UNKNOWN, Bpe, Characters, Side, Tokenizer
from dragoman.errors import ConfigError

LABELS = Labels(("N", "V"))
PAIRS = [("two dogs play", "the dogs")] * 3


@pytest.fixture(scope="module")
def characters() -> Side:
    return Tokenizer.train(lambda: PAIRS, Characters(byte_fallback=False)).source


def test_the_first_token_of_a_word_is_found(characters):
    aligned = encode_words(characters, ["two", "dogs"])
    assert characters.tokens(aligned.ids) == ["t", "w", "o", "▁", "d", "o", "g", "s"]
    assert aligned.firsts == [0, 4]


def test_the_space_before_the_first_word_is_no_part_of_it():
    side = Tokenizer.train(lambda: PAIRS, Bpe(vocabulary=300)).source
    aligned = encode_words(side, ["日", "dogs", "日"])
    tokens = side.tokens(aligned.ids)
    assert [tokens[first] for first in aligned.firsts] == ["<0xE6>", "▁dogs", "<0xE6>"]


@pytest.mark.parametrize("words", [["\u00a0"], ["dogs", "\u00a0", "play"], ["\u2003", "dogs"], ["dogs", "\u00a0"]])
def test_a_word_of_which_nothing_is_left_is_unknown(characters, words):
    aligned = encode_words(characters, words)
    tokens = characters.tokens(aligned.ids)
    assert len(aligned.firsts) == len(words)
    assert [tokens[first] for first in aligned.firsts] == ["<unknown>" if word.isspace() else word[0] for word in words]
    without = [index for index in aligned.ids if index != UNKNOWN]
    assert without == characters.encode(" ".join(words))


def test_words_may_hold_spaces_and_there_may_be_none(characters):
    aligned = encode_words(characters, ["two dogs", "play"])
    assert [characters.tokens(aligned.ids)[first] for first in aligned.firsts] == ["t", "p"]
    assert encode_words(characters, []) == ([], [])


def test_a_batch_counts_first_tokens_alone(characters):
    examples = [Tagged(("two", "dogs"), ("V", "N"), 1), Tagged(("do",), ("N",), 4)]
    ids = TaggedIds.build(examples, characters, LABELS, longest=99)
    batch = ids.collate(np.array([0, 1]))
    assert batch.labels.tolist() == [[-1, 1, -1, -1, -1, 0, -1, -1, -1, -1], [-1, 0, *[-1] * 8]]
    assert batch.tokens[1].tolist() == [BEGIN, *characters.encode("do"), END, *[PAD] * 6]
    assert batch.lengths.tolist() == [10, 4]
    assert (len(batch), batch.target_count) == (2, 3)
    assert batch.to(torch.device("meta")).labels.shape == batch.labels.shape
    assert (ids.lines, ids.cut, ids.unknown) == ((1, 4), 0, 0)


def test_long_sentences_lose_their_end_and_unknown_labels_count_nothing(characters):
    examples = [Tagged(("two", "dogs"), ("V", "N"), 1), Tagged(("do", "it"), ("Z", "N"), 4), Tagged(("a",), ("Z",), 7)]
    ids = TaggedIds.build(examples, characters, LABELS, longest=6)
    batch = ids.collate(np.array([0, 1]))
    assert batch.tokens[0].tolist() == [BEGIN, *characters.encode("two"), *characters.encode("a b")[1:2], END]
    assert batch.labels.tolist() == [[-1, 1, -1, -1, -1, -1], [-1, -1, -1, -1, 0, -1]]
    assert (len(ids), ids.lines, ids.cut, ids.unknown) == (2, (1, 4), 2, 2)


def test_streams_and_passes(characters):
    examples = [Tagged(("two",) * (1 + n % 5), ("N",) * (1 + n % 5), n + 1) for n in range(23)]
    ids = TaggedIds.build(examples, characters, LABELS, longest=99)
    stream = example_stream(ids, budget=67, seed=3)
    rows = [row for _ in range(stream.batches_per_epoch()) for row in next(stream).rows]
    assert sorted(rows) == list(range(23))
    words = sum(len(example.words) for example in examples)
    assert sum(batch.target_count for batch in batches_once(ids, budget=67)) == words


def test_the_settings_lead_to_the_files(tmp_path):
    (tmp_path / "train").write_text("".join(f"w{n} N\nx V\n\n" for n in range(29)), encoding="utf-8")
    train = {"kind": "columns", "path": str(tmp_path / "train")}
    parts = read_tagged_parts(parse(TaggedData, {"train": train, "held_out": 3}), seed=1)
    assert (len(parts.train), len(parts.valid)) == (26, 3)
    with pytest.raises(ConfigError, match="held_out has no effect beside valid"):
        parse(TaggedData, {"train": train, "valid": train, "held_out": 5})
