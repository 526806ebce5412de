"""Windows of packed text: contents, predictions and errors."""

import json
import tracemalloc

import numpy as np
import pytest
import torch

from dragoman.data.batching.batch_streams import EpochStream, RowBatch
from dragoman.data.batching.packing import PackedText, TextBatch, window_stream, windows_in_order
from dragoman.data.datasets.memory_map import RaggedArray
from dragoman.data.datasets.text import DocumentStore
from dragoman.data.tokenizers import BOS, EOS, PAD
from dragoman.errors import ConfigError, DataError
from tests.in_memory_text import one_epoch, packed, predictions, ragged, tokenized

TEXTS = [[11, 12, 13], [], [21, 22], [31, 32, 33, 34, 35, 36, 37], [41]] * 5
LONG = [list(range(100, 1100))]


def take(stream: EpochStream[TextBatch], count: int) -> list[list[int]]:
    return [next(stream).rows.tolist() for _ in range(count)]


def test_batch_holds_windows_of_packed_text():
    [batch] = windows_in_order(ragged(TEXTS[:3]), context_length=5, budget=20)
    assert batch.tokens.tolist() == [
        [BOS, 11, 12, 13, EOS],
        [BOS, EOS, BOS, 21, 22],
    ]
    assert batch.labels.tolist() == [
        [11, 12, 13, EOS, BOS],
        [EOS, BOS, 21, 22, EOS],
    ]
    assert batch.loss_mask.tolist() == [
        [True, True, True, True, False],
        [True, False, True, True, True],
    ]
    assert batch.document_ids.tolist() == [[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]
    assert batch.rows.tolist() == [0, 5]
    assert batch.lengths.tolist() == [5, 5]
    assert batch.target_count == 8
    assert batch.has_multiple_documents
    assert len(batch) == 2


def test_last_window_is_padded():
    *_, batch = windows_in_order(ragged([[11, 12, 13, 14]]), context_length=3, budget=6)
    assert batch.tokens.tolist() == [[BOS, 11, 12], [13, 14, PAD]]
    assert batch.labels.tolist() == [[11, 12, 13], [14, EOS, PAD]]
    assert batch.loss_mask.tolist() == [[True] * 3, [True, True, False]]
    assert batch.document_ids.tolist() == [[0, 0, 0], [0, 0, -1]]
    assert batch.lengths.tolist() == [3, 2]
    assert not batch.has_multiple_documents


def test_windows_of_one_document_are_contiguous():
    text = packed(LONG)
    for batch in windows_in_order(ragged(LONG), context_length=64, budget=12 * 64):
        for row, start in enumerate(batch.rows.tolist()):
            length = int(batch.lengths[row])
            assert batch.tokens[row, :length].tolist() == text[start : start + length]
            assert batch.labels[row, :length].tolist() == text[start + 1 : start + 1 + length]
        assert batch.tokens.shape[1] == 64
        assert not batch.has_multiple_documents


def test_batch_counts_targets_and_moves():
    batch = next(window_stream(ragged(TEXTS), context_length=7, budget=28, seed=1))
    assert isinstance(batch, RowBatch)
    moved = batch.to(torch.device("meta"))
    assert {tensor.device.type for tensor in (moved.tokens, moved.labels, moved.loss_mask, moved.document_ids)} == {
        "meta"
    }
    assert moved.rows is batch.rows
    assert {tensor.dtype for tensor in (batch.tokens, batch.labels, batch.document_ids)} == {torch.int64}


def test_batch_fills_the_budget():
    batches = list(windows_in_order(ragged(LONG), context_length=50, budget=199))
    assert [len(batch) for batch in batches] == [3] * 7
    assert sum(batch.target_count for batch in batches) == 1001


def test_epochs_differ_in_cuts_and_order():
    stream = window_stream(ragged(LONG), context_length=50, budget=200, seed=1)
    epochs = [[batch.rows.tolist() for batch in one_epoch(stream)] for _ in range(7)]
    offsets = set()
    for epoch in epochs:
        starts = [start for batch in epoch for start in batch]
        assert starts != sorted(starts)
        assert min(starts) == 0
        offsets.add(sorted(starts)[1])
    assert len(offsets) > 4
    assert all(0 < offset <= 50 for offset in offsets)
    assert epochs[0] == take(window_stream(ragged(LONG), context_length=50, budget=200, seed=1), 6)
    assert epochs[0] != take(window_stream(ragged(LONG), context_length=50, budget=200, seed=2), 6)


def test_stream_resumes_at_a_position():
    whole = take(window_stream(ragged(LONG), context_length=50, budget=200, seed=1), 30)
    for taken in (0, 1, 5, 6, 7, 12):
        stream = window_stream(ragged(LONG), context_length=50, budget=200, seed=1)
        take(stream, taken)
        other = window_stream(ragged(LONG), context_length=50, budget=200, seed=1)
        take(other, 3)
        other.seek(json.loads(json.dumps(stream.position)))
        assert take(other, 8) == whole[taken : taken + 8]


def test_short_text_is_one_window():
    batch = next(window_stream(ragged([[11]]), context_length=8, budget=8, seed=1))
    assert sorted(place for place, _, _ in predictions(batch)) in ([0, 1], [0], [1])
    [batch] = windows_in_order(ragged([[11]]), context_length=8, budget=8)
    assert predictions(batch) == [(0, BOS, 11), (1, 11, EOS)]


def test_rows_hold_window_starts():
    text = PackedText(ragged(TEXTS[:4]))
    assert len(text) == len(packed(TEXTS[:4]))
    assert text.documents_at(np.array([0, 4, 5, 6, 7, 10, 11, 19])).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_context_below_two_tokens_is_refused():
    with pytest.raises(ValueError, match="context_length = 1: a window of less than 2 tokens"):
        window_stream(ragged(TEXTS), context_length=1, budget=8, seed=1)


def test_budget_below_one_window_is_refused():
    with pytest.raises(
        ConfigError, match=r"training\.batch_tokens = 99 holds no window of data\.context_length = 100 tokens"
    ):
        window_stream(ragged(TEXTS), context_length=100, budget=99, seed=1)


@pytest.mark.parametrize("texts", [[], [[], []]])
def test_text_without_tokens_is_refused(texts):
    with pytest.raises(DataError, match="no text to make windows of"):
        window_stream(ragged(texts), context_length=8, budget=8, seed=1)


def test_windows_are_read_from_disk(tmp_path):
    chunks = ([tokenized(range(1000), n, is_first=n % 10 == 0)] for n in range(5000))
    texts = DocumentStore.build(tmp_path / "documents", chunks, vocab_size=1000).texts
    assert isinstance(texts, RaggedArray)
    tracemalloc.start()
    try:
        stream = window_stream(texts, context_length=64, budget=4096, seed=1)
        for _ in range(5):
            next(stream)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stream.batches_per_epoch() == pytest.approx(5_001_000 / 4096, abs=1)
    assert peak < 8 * 2**20  # of 10 MB of ids; the places of 78,000 windows are 1.2 MB, twice while they are shuffled
