"""Batches of prompts with their continuations for a decoder-only model; only the continuation is predicted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from dragoman.array_types import Rows
from dragoman.data.batching.batch_streams import EpochStream
from dragoman.data.batching.in_memory_batches import example_stream, examples_in_order, pad_batch
from dragoman.data.batching.packing import PADDING_DOCUMENT, TextBatch
from dragoman.data.batching.token_budget_batches import LengthArray
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD


@final
@dataclass(frozen=True)
class PromptDataset:
    """Pairs of a store as prompts with continuations; implements `InMemoryDataset`."""

    store: TokenStore

    @property
    def lengths(self) -> LengthArray:
        """Number of tokens of each pair, BOS included."""
        return self.store.source_lengths + self.store.target_lengths + 1

    def collate(self, rows: Rows) -> TextBatch:
        """Return pairs as source ids, BOS, target ids, of which target ids and EOS are predicted."""
        store, lengths = self.store, self.lengths[rows].astype(np.int64)
        sources = store.source_lengths[rows].astype(np.int64)
        each, columns = np.arange(len(rows)), np.arange(int(lengths.max()))
        tokens = np.full((len(rows), len(columns)), PAD, dtype=np.int64)
        store.source.fill(rows, tokens)
        tokens[each, sources] = BOS
        targets = pad_batch(store.target, rows, padding=PAD)
        row, column = np.nonzero(np.arange(targets.shape[1]) < store.target_lengths[rows][:, None])
        tokens[row, sources[row] + 1 + column] = targets[row, column]
        labels = np.full_like(tokens, PAD)
        labels[:, :-1] = tokens[:, 1:]
        labels[each, lengths - 1] = EOS
        real = columns < lengths[:, None]
        return TextBatch(
            tokens=torch.from_numpy(tokens),
            labels=torch.from_numpy(labels),
            loss_mask=torch.from_numpy(real & (columns >= sources[:, None])),
            document_ids=torch.from_numpy(np.where(real, 0, PADDING_DOCUMENT)),
            rows=rows,
        )


def prompt_stream(store: TokenStore | Callable[[int], TokenStore], *, budget: int, seed: int) -> EpochStream[TextBatch]:
    """Return an endless stream of pairs of similar length under a `budget` of padded tokens, shuffled by `seed`.

    `store` is one store, or a function from the epoch to its store, as BPE dropout needs. Raises DataError if a pair is
    longer than the budget, or if there is none.
    """
    examples = (lambda epoch: PromptDataset(store(epoch))) if callable(store) else PromptDataset(store)
    return example_stream(examples, budget=budget, seed=seed)


def prompts_in_order(store: TokenStore, *, budget: int) -> Iterator[TextBatch]:
    """Yield all pairs once, by length; `TextBatch.rows` holds their indices."""
    return examples_in_order(PromptDataset(store), budget=budget)
