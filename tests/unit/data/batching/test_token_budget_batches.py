"""Token batches: budget, coverage, positions and padding."""

import json

import numpy as np
import pytest
import torch

from dragoman.data.batching.batch_streams import EpochStream
from dragoman.data.batching.token_budget_batches import (
    Batch,
    batches_in_order,
    collate,
    pair_stream,
    plan_batches,
    plan_batches_in_order,
)
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.readers.line_reader import read_lines
from dragoman.data.tokenizers import BOS, EOS, PAD, BpeConfig, Tokenizer
from dragoman.errors import DataError
from tests.padding_efficiency import padding_efficiency

PAIRS = [([10 + n] * (n * 7 % 11), [20 + n] * (n * 5 % 13)) for n in range(101)]


@pytest.fixture
def store(tmp_path) -> TokenStore:
    return TokenStore.build(tmp_path / "tokens", PAIRS, vocab_size=131)


def take(stream: EpochStream[Batch], count: int) -> list[list[int]]:
    return [next(stream).rows.tolist() for _ in range(count)]


def test_batch_places_special_tokens(tmp_path):
    store = TokenStore.build(tmp_path / "tokens", [([5, 6, 7], [8]), ([9], [10, 11]), ([], [])])
    batch = collate(store, np.array([1, 0, 2]))
    assert batch.source.tolist() == [[9, EOS, PAD, PAD], [5, 6, 7, EOS], [EOS, PAD, PAD, PAD]]
    assert batch.source_lengths.tolist() == [2, 4, 1]
    assert batch.target.tolist() == [[BOS, 10, 11], [BOS, 8, PAD], [BOS, PAD, PAD]]
    assert batch.labels.tolist() == [[10, 11, EOS], [8, EOS, PAD], [EOS, PAD, PAD]]
    assert batch.target_lengths.tolist() == [3, 2, 1]
    assert batch.rows.tolist() == [1, 0, 2]
    assert len(batch) == 3
    tensors = (batch.source, batch.source_lengths, batch.target, batch.labels, batch.target_lengths)
    assert {tensor.dtype for tensor in tensors} == {torch.int64}


def test_batch_moves_to_a_device(store):
    batch = collate(store, np.arange(5))
    moved = batch.to(torch.device("meta"))
    assert moved.source.device.type == moved.labels.device.type == "meta"
    assert moved.target.shape == batch.target.shape
    assert moved.rows.tolist() == batch.rows.tolist()


def test_epochs_hold_every_example_in_different_orders(store):
    stream = pair_stream(store, budget=60, seed=1)
    first = take(stream, stream.batches_per_epoch())
    second = take(stream, stream.batches_per_epoch())
    for epoch in (first, second):
        assert sorted(row for rows in epoch for row in rows) == list(range(101))
    assert first != second
    assert sorted(map(sorted, first)) != sorted(map(sorted, second))  # not only the order of the batches


def test_order_depends_on_the_seed(store):
    orders = [take(pair_stream(store, budget=60, seed=seed), 10) for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_stream_resumes_at_a_position(store):
    stream = pair_stream(store, budget=60, seed=1)
    per_epoch = stream.batches_per_epoch()
    whole = take(pair_stream(store, budget=60, seed=1), 3 * per_epoch)
    for taken in (0, 1, per_epoch - 1, per_epoch, per_epoch + 1, 2 * per_epoch):
        stream = pair_stream(store, budget=60, seed=1)
        take(stream, taken)
        position = json.loads(json.dumps(stream.position))
        other = pair_stream(store, budget=60, seed=1)
        take(other, 3)
        other.seek(position)
        assert other.position == stream.position == {"epoch": taken // per_epoch, "batch": taken % per_epoch}
        assert take(other, per_epoch) == whole[taken : taken + per_epoch]


def test_position_of_other_data_is_refused(store):
    stream = pair_stream(store, budget=60, seed=1)
    with pytest.raises(DataError, match="none with index 1000: the data, the tokenizer or the budget changed"):
        stream.seek({"epoch": 0, "batch": 1000})


def test_each_epoch_may_have_its_own_store(tmp_path):
    stores = [TokenStore.build(tmp_path / str(n), [([n + 5] * 3, [n + 5] * 2)] * 7) for n in range(4)]
    asked = []

    def store_of(epoch: int) -> TokenStore:
        asked.append(epoch)
        return stores[epoch]

    stream = pair_stream(store_of, budget=12, seed=1)
    seen = [int(next(stream).source[0, 0]) for _ in range(7)]
    assert stream.batches_per_epoch() == 3
    assert seen == [5, 5, 5, 6, 6, 6, 7]
    assert asked == [0, 1, 2]
    stream.seek({"epoch": 3, "batch": 2})
    assert int(next(stream).source[0, 0]) == 8


def test_example_over_the_budget_is_refused(store):
    with pytest.raises(
        DataError, match=r"example \d+: its 13 tokens, end symbol included, exceed the budget of 12 tokens"
    ):
        pair_stream(store, budget=12, seed=1)
    assert pair_stream(store, budget=13, seed=1).batches_per_epoch() > 0


def test_empty_store_is_refused(tmp_path):
    with pytest.raises(DataError, match="no example to make batches of"):
        pair_stream(TokenStore.build(tmp_path / "tokens", []), budget=60, seed=1)


def test_validation_batches_are_sorted_by_length(store):
    batches = list(batches_in_order(store, budget=60))
    lengths = [length for batch in batches for length in batch.target_lengths.tolist()]
    assert lengths == sorted(lengths)
    assert sorted(row for batch in batches for row in batch.rows) == list(range(101))
    for batch in batches:
        for row, source in zip(batch.rows, batch.source.tolist(), strict=True):
            ids = PAIRS[row][0]
            assert source[: len(ids) + 1] == [*ids, EOS]


def test_long_example_is_alone_in_validation():
    batches = plan_batches_in_order(np.array([5, 500, 5]), np.array([5, 5, 5]), budget=20)
    assert [rows.tolist() for rows in batches] == [[0, 2], [1]]


def test_padding_efficiency_counts_tokens():
    source, target = np.array([1, 3, 0]), np.array([2, 2, 1])
    found = padding_efficiency([np.array([0, 1]), np.array([2])], source, target)
    assert found.source == pytest.approx((2 + 4 + 1) / (2 * 4 + 1))
    assert found.target == 1.0


def test_half_a_million_examples_are_planned_in_seconds():
    generator = np.random.default_rng(0)
    source = generator.poisson(25, 500_000).astype(np.int32)
    target = np.maximum(0, source + generator.integers(-5, 6, len(source))).astype(np.int32)
    batches = plan_batches(source, target, budget=16_384, seed=1, epoch=0)
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(500_000))
    found = padding_efficiency(batches, source, target)
    assert min(found.source, found.target) > 0.97


@pytest.fixture(scope="module")
def multi30k(shared_data, tmp_path_factory) -> TokenStore:
    folder = shared_data / "multi30k"
    texts = [[text for _, text in read_lines(folder / f"train.{language}.gz")] for language in ("en", "de")]
    tokenizer = Tokenizer.train(lambda: zip(*texts, strict=True), BpeConfig(vocab_size=8000))
    pairs = zip(tokenizer.source.encode_batch(texts[0]), tokenizer.target.encode_batch(texts[1]), strict=True)
    return TokenStore.build(tmp_path_factory.mktemp("multi30k") / "tokens", pairs)


@pytest.mark.parametrize(("budget", "least_source"), [(1024, 0.95), (4096, 0.9), (16_384, 0.7)])
def test_padding_is_rare_on_multi30k(multi30k, budget, least_source):
    lengths = multi30k.source.lengths, multi30k.target.lengths
    filled = padding_efficiency(plan_batches(*lengths, budget=budget, seed=1, epoch=0), *lengths)
    assert filled.target >= 0.95
    assert filled.source >= least_source
