"""Batches of prompts with their continuations for a decoder-only model; only the continuation is predicted."""

from collections.abc import Callable, Iterator

import numpy as np
import torch

from dragoman.data.batching.epochs import Epoch, EpochStream, Rows
from dragoman.data.batching.packing import PADDING_DOCUMENT, TextBatch
from dragoman.data.batching.token_batches import LengthArray, plan_batches, plan_batches_in_order
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD


def collate_prompts(store: TokenStore, rows: Rows) -> TextBatch:
    """Return pairs as source ids, BOS, target ids, of which target ids and EOS are predicted."""
    sources, lengths = store.source_lengths[rows].astype(np.int64), _lengths(store)[rows] + 1
    each, columns = np.arange(len(rows)), np.arange(int(lengths.max()))
    tokens = np.full((len(rows), len(columns)), PAD, dtype=np.int64)
    store.source.fill(rows, tokens)
    tokens[each, sources] = BOS
    targets = np.full((len(rows), int(store.target_lengths[rows].max())), PAD, dtype=np.int64)
    store.target.fill(rows, targets)
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

    def epoch_of(epoch: int) -> Epoch[TextBatch]:
        chosen = store(epoch) if callable(store) else store
        lengths = _lengths(chosen)
        batches = plan_batches(lengths, lengths, budget=budget, seed=seed, epoch=epoch)
        return Epoch(batches, lambda _, rows: collate_prompts(chosen, rows))

    return EpochStream(epoch_of)


def prompts_in_order(store: TokenStore, *, budget: int) -> Iterator[TextBatch]:
    """Yield all pairs once, by length; `TextBatch.rows` holds their indices."""
    lengths = _lengths(store)
    for rows in plan_batches_in_order(lengths, lengths, budget=budget):
        yield collate_prompts(store, rows)


def _lengths(store: TokenStore) -> LengthArray:
    """Return the number of ids of each pair; the plan adds one for a special token, here BOS."""
    return store.source_lengths + store.target_lengths
