"""Batches of sentence pairs of similar length under a token budget, shuffled by the seed in each epoch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.array_types import Lengths, Rows, SourceFeatures, SourceIds, TargetIds
from dragoman.data.batching.batch_streams import Epoch, EpochStream, PartitionedEpoch, RowBatch
from dragoman.data.batching.corpus_mixing import CorpusWeights, permute_indices, sample_rows
from dragoman.data.datasets.memory_map import RaggedArray
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.datasets.source_token_features import StoredFeatures
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD
from dragoman.errors import DataError

LengthArray = NDArray[np.int32]

PLAN_WINDOW = 2**20
"""Examples planned at a time; an epoch of a larger corpus has several parts, each drawn from the whole corpus."""


@final
@dataclass(frozen=True)
class Batch(RowBatch):
    """Padded pairs with their lengths; models derive masks from lengths."""

    source: SourceIds
    """Source ids and EOS, padded with PAD."""
    source_lengths: Lengths
    """Ids of each source, EOS included."""
    target: TargetIds
    """BOS and target ids, padded with PAD: the input of the decoder."""
    labels: TargetIds
    """Target ids and EOS, padded with PAD: the expected output at each position."""
    target_lengths: Lengths
    """Predicted ids of each target, EOS included."""
    source_features: SourceFeatures | None = None
    """Features of the sources, if given."""

    @property
    def target_count(self) -> int:
        """Number of predicted ids, EOS included, over which the loss is averaged."""
        return int(self.target_lengths.sum())


def plan_batches(
    source_lengths: LengthArray, target_lengths: LengthArray, *, budget: int, seed: int, epoch: int, part: int = 0
) -> list[Rows]:
    """Return the batches of an epoch, or of a part of it, as indices of examples; every example occurs once.

    Lengths exclude special tokens. On each side, the padded width of a batch (EOS or BOS included) times its number of
    examples is at most `budget`.

    Examples are sorted by target length, then source length; ties are broken at random. Source lengths alternate
    between ascending and descending from one target length to the next, so that batches of two target lengths waste
    little. The direction of the sort and the order of the batches are drawn from (seed, epoch, part). Raises DataError
    if an example is longer than the budget.
    """
    generator = np.random.default_rng([seed, epoch, part] if part else [seed, epoch])
    widths = np.maximum(source_lengths, target_lengths).astype(np.int64) + 1
    if len(widths) and widths.max() > budget:
        row = int(widths.argmax())
        raise DataError(
            f"example {row}: its {int(widths[row]):,} tokens, end symbol included, exceed the budget of {budget:,} "
            "tokens per batch; raise the budget (training.batch_tokens), or lower data.max_source_length and "
            "data.max_target_length"
        )
    order = _sort_by_length(source_lengths, target_lengths, generator)
    batches = _cut(order, widths, budget)
    return [batches[index] for index in generator.permutation(len(batches))]


def plan_batches_in_order(source_lengths: LengthArray, target_lengths: LengthArray, *, budget: int) -> list[Rows]:
    """Return validation batches, shortest first; an example over the budget has a batch of its own."""
    widths = np.maximum(source_lengths, target_lengths).astype(np.int64) + 1
    order = np.lexsort((source_lengths, target_lengths)).astype(np.int64)
    return _cut(order, widths, budget)


def collate(store: TokenStore, rows: Rows, features: StoredFeatures | None = None) -> Batch:
    """Return the examples of `rows`, padded to the longest of them, with the features of their sources."""
    source, source_lengths = _pad(store.source, rows, shift=0)
    target, target_lengths = _pad(store.target, rows, shift=1)
    labels, _ = _pad(store.target, rows, shift=0)
    target[:, 0] = BOS
    each = np.arange(len(rows))
    source[each, source_lengths - 1] = EOS
    labels[each, target_lengths - 1] = EOS
    return Batch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target=torch.from_numpy(target),
        labels=torch.from_numpy(labels),
        target_lengths=torch.from_numpy(target_lengths),
        rows=rows,
        source_features=None if features is None else features.features(store.origins[rows], source, source_lengths),
    )


def batches_in_order(
    store: TokenStore, *, budget: int, source_features: StoredFeatures | None = None
) -> Iterator[Batch]:
    """Yield all examples once, by length; `Batch.rows` holds their indices."""
    for rows in plan_batches_in_order(store.source.lengths, store.target.lengths, budget=budget):
        yield collate(store, rows, source_features)


def pair_stream(
    store: TokenStore | Callable[[int], TokenStore],
    *,
    budget: int,
    seed: int,
    source_features: StoredFeatures | None = None,
    weights: CorpusWeights | None = None,
    window: int = PLAN_WINDOW,
) -> EpochStream[Batch]:
    """Return an endless stream of batches of pairs; each part of an epoch holds at most `window` pairs.

    `store` is one store, or a function from the epoch (from 0) to its store, as BPE dropout needs. `budget` bounds the
    padded tokens of a batch on each side. Every pair occurs once per epoch, or on average as often as `weights` say.
    Raises DataError if there is no example.
    """

    def epoch_of(number: int) -> PartitionedEpoch[Batch]:
        own = store(number) if callable(store) else store
        parts = max(1, -(-len(own) // window))

        def plan_part(part: int) -> Epoch[Batch]:
            drawn = part_rows(len(own), part, parts=parts, seed=seed, epoch=number)
            if weights is not None:
                place = (seed, number, part) if part else (seed, number)
                drawn = drawn[sample_rows(weights.weights_of(drawn), seed=place)]
            lengths = own.source.lengths[drawn], own.target.lengths[drawn]
            batches = plan_batches(*lengths, budget=budget, seed=seed, epoch=number, part=part)
            return [partial(collate, own, drawn[places], source_features) for places in batches]

        return PartitionedEpoch(parts, plan_part)

    return EpochStream(epoch_of)


def part_rows(count: int, part: int, *, parts: int, seed: int, epoch: int) -> Rows:
    """Return the sorted rows of a part of an epoch; each of `count` rows is in one part, drawn from (seed, epoch)."""
    first, last = part * count // parts, (part + 1) * count // parts
    places = np.arange(first, last)
    return places if parts == 1 else np.sort(permute_indices(places, count, seed=(seed, epoch)))


def _sort_by_length(source_lengths: LengthArray, target_lengths: LengthArray, generator: np.random.Generator) -> Rows:
    shuffled = generator.permutation(len(target_lengths))
    descending = generator.random() < 0.5
    source, target = _narrow(source_lengths[shuffled]), _narrow(target_lengths[shuffled])
    signed = np.where((target % 2 == 1) ^ descending, -source, source)
    order: Rows = shuffled[np.lexsort((signed, target))].astype(np.int64)
    return order[::-1].copy() if generator.random() < 0.5 else order


def _narrow(lengths: LengthArray) -> NDArray[Any]:
    """Convert to the type that NumPy sorts fastest."""
    fits = not len(lengths) or int(lengths.max()) <= np.iinfo(np.int16).max
    return lengths.astype(np.int16 if fits else np.int64)


def _cut(order: Rows, widths: Rows, budget: int) -> list[Rows]:
    """Cut a sorted order into the longest batches whose number of examples times the maximum width is in the budget."""
    ordered, counts = widths[order], np.arange(1, budget + 1)
    batches: list[Rows] = []
    start = 0
    while start < len(order):
        most = max(1, budget // int(ordered[start]))  # upper bound, exact if no example is wider than the first
        widest = np.maximum.accumulate(ordered[start : start + most])
        beyond = widest * counts[: len(widest)] > budget
        stop = start + max(1, int(beyond.argmax()) if beyond.any() else len(widest))
        batches.append(order[start:stop])
        start = stop
    return batches


def _pad(sequences: RaggedArray, rows: Rows, *, shift: int) -> tuple[Rows, Rows]:
    """Return ids from position `shift` on, padded for one special token, and the lengths with that token."""
    lengths = sequences.lengths[rows].astype(np.int64) + 1
    padded = np.full((len(rows), int(lengths.max())), PAD, dtype=np.int64)
    sequences.fill(rows, padded[:, shift : padded.shape[1] - 1 + shift])
    return padded, lengths
