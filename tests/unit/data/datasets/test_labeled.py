"""Labeled texts as ids and batches."""

import json

import numpy as np
import pytest
import torch

from dragoman.config import parse
from dragoman.data.batching.example_batches import example_stream, examples_in_order
from dragoman.data.datasets.labeled import (
    LabeledDataConfig,
    LabeledDataset,
    Labels,
    read_labeled_splits,
    wrap_in_bos_eos,
)
from dragoman.data.readers.labeled import LabeledText
from dragoman.data.tokenizers import BOS, EOS, PAD, LanguageTokenizer, Tokenizer, WordConfig
from dragoman.errors import ConfigError, DataError

TEXTS = ["one", "one two", "one two three", "three two one two", "two"]
EXAMPLES = [LabeledText(text, "ba"[n % 2], n + 1) for n, text in enumerate(TEXTS * 5)]
LABELS = Labels(("a", "b"))


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    return Tokenizer.train(lambda: [(text, text) for text in TEXTS], WordConfig()).source


def test_labels_are_sorted():
    labels = Labels.collect(["b", "a", "b", "c"])
    assert labels == Labels(("a", "b", "c"))
    assert len(labels) == 3
    assert [labels.ids.get(name) for name in "abcd"] == [0, 1, 2, None]


@pytest.mark.parametrize(("given", "message"), [([], "has no label"), (["a", "a"], "has the label 'a' alone")])
def test_fewer_than_two_labels_are_refused(given, message):
    with pytest.raises(DataError, match=message):
        Labels.collect(given)


@pytest.mark.parametrize("label", ["", "a\tb", "a\nb", "a\r", "a\u2028b"])
def test_label_that_breaks_columns_or_lines_is_refused(label, tmp_path):
    with pytest.raises(DataError, match="is empty or contains a tab or a line break; rename it"):
        Labels.collect(["a", label])
    tree = {"format": "dragoman.labels", "format_version": 1, "labels": ["a", label]}
    (tmp_path / "labels.json").write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(DataError, match=r"labels\.json: the label .* is empty or contains"):
        Labels.load(tmp_path / "labels.json")


def test_labels_survive_a_file(tmp_path):
    path = tmp_path / "labels.json"
    Labels(("a", "größer")).save(path)
    assert Labels.load(path) == Labels(("a", "größer"))
    assert json.loads(path.read_text(encoding="utf-8"))["labels"] == ["a", "größer"]


def test_altered_label_is_refused(tmp_path):
    path = tmp_path / "labels.json"
    Labels(("a", "größer")).save(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("größer", "größe"), encoding="utf-8")
    with pytest.raises(DataError, match=r"do not match their fingerprint.*If you renamed labels, delete"):
        Labels.load(path)
    lines = text.replace("größer", "größe").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "fingerprint" not in line), encoding="utf-8")
    assert Labels.load(path) == Labels(("a", "größe"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ('{"labels": ', r"damaged \(not valid JSON: .*\); copy the file again"),
        ("[]", "is not of dragoman.labels"),
        ('{"format": "dragoman.labels", "format_version": 1}', "damaged labels"),
        ('{"format": "x", "format_version": 1, "labels": []}', "is not of dragoman.labels"),
        ('{"format": "dragoman.labels", "format_version": 1, "labels": [1, 2]}', "damaged labels"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "labels.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"labels\.json: {message}"):
        Labels.load(path)


@pytest.mark.parametrize(
    ("longest", "expected"), [(5, [2, 7, 8, 9, 3]), (4, [2, 7, 8, 3]), (3, [2, 7, 3]), (99, [2, 7, 8, 9, 3])]
)
def test_truncation_keeps_special_tokens(longest, expected):
    assert (BOS, EOS) == (2, 3)
    assert wrap_in_bos_eos([7, 8, 9], max_length=longest) == expected


def test_batch_wraps_texts_in_bos_and_eos(side):
    ids = LabeledDataset.build(EXAMPLES[:3], side.encode_batch, LABELS, max_length=4)
    one, two = side.encode("one two")
    batch = ids.collate(np.array([2, 0]))
    assert batch.tokens.tolist() == [[BOS, one, two, EOS], [BOS, one, EOS, PAD]]
    assert batch.lengths.tolist() == [4, 3]
    assert batch.labels.tolist() == [1, 1]
    assert batch.rows.tolist() == [2, 0]
    assert len(batch) == batch.target_count == 2
    assert (ids.num_truncated, ids.num_unknown, ids.lines) == (1, 0, (1, 2, 3))
    assert {one.dtype for one in (batch.tokens, batch.lengths, batch.labels)} == {torch.int64}
    assert batch.to(torch.device("meta")).labels.device.type == "meta"


def test_unknown_labels_are_left_out_and_counted(side):
    ids = LabeledDataset.build(
        [*EXAMPLES[:2], LabeledText("one", "z", 9), EXAMPLES[3]], side.encode_batch, LABELS, max_length=99
    )
    assert (len(ids), ids.num_unknown, ids.lines) == (3, 1, (1, 2, 4))


def test_stream_shuffles_within_the_budget_and_resumes(side):
    ids = LabeledDataset.build(EXAMPLES, side.encode_batch, LABELS, max_length=99)
    stream = example_stream(ids, budget=19, seed=1)
    epoch = [next(stream) for _ in range(stream.batches_per_epoch())]
    assert sorted(row for batch in epoch for row in batch.rows) == list(range(25))
    assert all(batch.tokens.numel() <= 19 for batch in epoch)
    for batch in epoch:
        for row, tokens, label in zip(batch.rows, batch.tokens.tolist(), batch.labels.tolist(), strict=True):
            expected = [BOS, *side.encode(EXAMPLES[row].text), EOS]
            assert tokens == expected + [PAD] * (len(tokens) - len(expected))
            assert LABELS.names[label] == EXAMPLES[row].label
    other = example_stream(ids, budget=19, seed=1)
    other.seek(json.loads(json.dumps(stream.position)))
    assert [next(other).rows.tolist() for _ in range(5)] == [next(stream).rows.tolist() for _ in range(5)]
    assert [batch.rows.tolist() for batch in epoch] != [next(stream).rows.tolist() for _ in epoch]


def test_each_epoch_may_have_its_own_texts(side):
    """As with BPE dropout, the texts of an epoch depend on its number alone."""

    def spelt(epoch: int) -> LabeledDataset:
        def encode(texts):
            return [ids * (1 + (row + epoch) % 2) for row, ids in enumerate(side.encode_batch(texts))]

        return LabeledDataset.build(EXAMPLES, encode, LABELS, max_length=99)

    stream = example_stream(spelt, budget=31, seed=1)
    epochs = []
    for number in range(3):
        epochs.append([])
        while stream.position["epoch"] == number:
            epochs[-1].append(next(stream).tokens.tolist())
    lengths = [sum(sum(map(bool, row)) for batch in batches for row in batch) for batches in epochs]
    assert lengths == [int(spelt(number).lengths.sum()) for number in range(3)]
    assert lengths[0] == lengths[2] != lengths[1]
    other = example_stream(spelt, budget=31, seed=1)
    other.seek({"epoch": 1, "batch": 1})
    assert [next(other).tokens.tolist() for _ in epochs[1][1:]] == epochs[1][1:]


def test_validation_yields_every_text_by_length(side):
    ids = LabeledDataset.build(EXAMPLES, side.encode_batch, LABELS, max_length=99)
    batches = list(examples_in_order(ids, budget=19))
    lengths = [length for batch in batches for length in batch.lengths.tolist()]
    assert lengths == sorted(lengths)
    assert sorted(row for batch in batches for row in batch.rows) == list(range(25))
    assert [len(batch) for batch in examples_in_order(ids, budget=1)] == [1] * 25


def test_overlong_and_missing_examples_are_refused(side):
    ids = LabeledDataset.build(EXAMPLES, side.encode_batch, LABELS, max_length=99)
    with pytest.raises(DataError, match=r"example 3: its 6 tokens exceed the budget of 5 tokens per batch"):
        example_stream(ids, budget=5, seed=1)
    with pytest.raises(DataError, match="no example"):
        example_stream(LabeledDataset.build([], side.encode_batch, LABELS, max_length=99), budget=5, seed=1)


def test_configuration_names_the_files(tmp_path):
    (tmp_path / "train").write_text("".join(f"A:x text {n}\n" for n in range(29)), encoding="utf-8")
    train = {"path": str(tmp_path / "train"), "kind": "lines", "label_separator": ":"}
    parts = read_labeled_splits(parse(LabeledDataConfig, {"train": train, "valid_size": 5}), seed=1)
    assert (len(parts.train), len(parts.valid), parts.test) == (24, 5, None)
    assert {one.label for one in parts.train} == {"A"}
    with pytest.raises(ConfigError, match="valid_size has no effect if valid is given"):
        parse(LabeledDataConfig, {"train": train, "valid": train, "valid_size": 5})


def test_sst_2_becomes_batches(shared_data):
    folder = shared_data / "classification"
    files = {"train": "train", "valid": "dev", "test": "test"}
    tree = {part: {"kind": "lines", "path": str(folder / f"stsa.binary.{name}.gz")} for part, name in files.items()}
    parts = read_labeled_splits(parse(LabeledDataConfig, tree), seed=1)
    assert (len(parts.valid), len(parts.test)) == (872, 1821)
    assert 6900 < len(parts.train) <= 6920  # a few sentences stand in the test text too
    side = Tokenizer.train(lambda: [(one.text, one.text) for one in parts.train[:500]], WordConfig()).source
    labels = Labels.collect(one.label for one in parts.train)
    ids = LabeledDataset.build(parts.train, side.encode_batch, labels, max_length=256)
    assert (len(ids), ids.num_truncated, ids.num_unknown) == (len(parts.train), 0, 0)
    assert sum(len(batch) for batch in examples_in_order(ids, budget=4096)) == len(ids)
