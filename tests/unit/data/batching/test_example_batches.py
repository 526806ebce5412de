"""Batches of prompts and continuations, of which only the continuation is predicted."""

import numpy as np
import pytest

from dragoman.data.batching.example_batches import PromptDataset, PromptLayout, prompt_stream, prompts_in_order
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.tokenizers import BOS, EOS, PAD
from dragoman.errors import DataError
from tests.in_memory_text import one_epoch

PAIRS = [([10 + n] * (n * 7 % 11), [50 + n] * (n * 5 % 13)) for n in range(101)]


@pytest.fixture
def store(tmp_path) -> TokenStore:
    return TokenStore.build(tmp_path / "tokens", PAIRS, vocab_size=200)


def test_row_is_prompt_bos_continuation(tmp_path):
    store = TokenStore.build(tmp_path / "tokens", [([5, 6], [7, 8, 9]), ([11], [12]), ([], [13]), ([14], [])])
    batch = PromptDataset(store).collate(np.array([1, 0, 2, 3]))
    assert batch.tokens.tolist() == [
        [11, BOS, 12, PAD, PAD, PAD],
        [5, 6, BOS, 7, 8, 9],
        [BOS, 13, PAD, PAD, PAD, PAD],
        [14, BOS, PAD, PAD, PAD, PAD],
    ]
    assert batch.labels[0, :3].tolist() == [BOS, 12, EOS]
    assert batch.labels[1].tolist() == [6, BOS, 7, 8, 9, EOS]
    assert batch.labels[2, :2].tolist() == [13, EOS]
    assert batch.labels[3, :2].tolist() == [BOS, EOS]
    assert batch.loss_mask.int().tolist() == [
        [0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 1],
        [1, 1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
    ]
    assert batch.lengths.tolist() == [3, 6, 2, 2]
    assert batch.document_ids[0].tolist() == [0, 0, 0, -1, -1, -1]
    assert batch.rows.tolist() == [1, 0, 2, 3]
    assert batch.target_count == 9
    assert not batch.has_multiple_documents


def test_epoch_has_every_pair_once_within_the_budget(store):
    stream = prompt_stream(store, budget=60, seed=1)
    first, second = (one_epoch(stream) for _ in range(2))
    for epoch in (first, second):
        assert sorted(row for batch in epoch for row in batch.rows.tolist()) == list(range(101))
        assert all(batch.tokens.numel() <= 60 for batch in epoch)
    assert [batch.rows.tolist() for batch in first] != [batch.rows.tolist() for batch in second]


def test_padding_is_rare(store):
    batches = list(prompts_in_order(store, budget=120))
    assert sorted(row for batch in batches for row in batch.rows.tolist()) == list(range(101))
    tokens = sum(int(batch.lengths.sum()) for batch in batches)
    assert tokens == sum(len(source) + len(target) + 1 for source, target in PAIRS)
    assert tokens > 0.9 * sum(batch.tokens.numel() for batch in batches)
    lengths = [length for batch in batches for length in batch.lengths.tolist()]
    assert lengths == sorted(lengths)


def test_each_epoch_may_have_its_own_store(tmp_path):
    stores = [TokenStore.build(tmp_path / str(n), [([n + 5], [n + 5] * 2)] * 7) for n in range(3)]
    stream = prompt_stream(lambda epoch: stores[epoch], budget=12, seed=1)
    assert [int(next(stream).tokens[0, 0]) for _ in range(9)] == [5, 5, 5, 6, 6, 6, 7, 7, 7]


def test_pair_over_the_budget_is_refused(store):
    longest = max(len(source) + len(target) + 1 for source, target in PAIRS)
    with pytest.raises(DataError, match=rf"example \d+: its {longest} tokens exceed the budget"):
        prompt_stream(store, budget=longest - 1, seed=1)


@pytest.mark.parametrize("begins_with_bos", [False, True])
def test_row_of_a_chat_has_no_separator(tmp_path, begins_with_bos):
    store = TokenStore.build(tmp_path / "tokens", [([5, 6], [7, 8, 9]), ([11], [])])
    layout = PromptLayout(separator=False, begins_with_bos=begins_with_bos)
    batch = PromptDataset(store, layout).collate(np.array([0, 1]))
    first = [BOS] * begins_with_bos
    assert batch.tokens.tolist() == [[*first, 5, 6, 7, 8, 9], [*first, 11, PAD, PAD, PAD, PAD]]
    assert [row[mask].tolist() for row, mask in zip(batch.labels, batch.loss_mask, strict=True)] == [
        [7, 8, 9, EOS],
        [EOS],
    ]
    skipped = [0] * begins_with_bos
    assert batch.loss_mask.int().tolist() == [[*skipped, 0, 1, 1, 1, 1], [*skipped, 1, 0, 0, 0, 0]]
    assert batch.lengths.tolist() == [5 + begins_with_bos, 1 + begins_with_bos]
