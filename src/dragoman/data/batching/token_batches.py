"""Batches of sentences of like length under a budget of tokens, shuffled anew every epoch from the seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, final

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.data.batching.epochs import Epoch, EpochStream, PartitionedEpoch, Rows
from dragoman.data.batching.mixing import CorpusWeights, sample_rows
from dragoman.data.batching.permutation import permute_indices
from dragoman.data.datasets.parallel import RaggedArray, TokenStore
from dragoman.data.datasets.source_features import StoredFeatures
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD
from dragoman.errors import DataError
from dragoman.typing import Lengths, SourceFeatures, SourceIds, TargetIds

LengthArray = NDArray[np.int32]

PLAN_WINDOW = 2**20
"""Examples that are planned at a time: of a larger corpus, an epoch has parts of as many, drawn from all of it."""


@final
@dataclass(frozen=True)
class Batch:
    """Examples side by side: lengths, never ready-made masks."""

    source: SourceIds
    """Source ids and END, padded with PAD."""
    source_lengths: Lengths
    """Ids of each source, END included."""
    target: TargetIds
    """BEGIN and target ids, padded with PAD: what the decoder reads."""
    labels: TargetIds
    """Target ids and END, padded with PAD: what it must predict at each place."""
    target_lengths: Lengths
    """Predicted ids of each target, END included."""
    rows: Rows
    """The index of each example in its store."""
    source_features: SourceFeatures | None = None
    """Features of the sources, where given."""

    def __len__(self) -> int:
        """Examples."""
        return len(self.rows)

    @property
    def target_count(self) -> int:
        """Predicted ids, END included: what a loss is the mean over."""
        return int(self.target_lengths.sum())

    def to(self, device: torch.device) -> Self:
        """The batch with its tensors on a device."""
        return type(self)(
            source=self.source.to(device, non_blocking=True),
            source_lengths=self.source_lengths.to(device, non_blocking=True),
            target=self.target.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            target_lengths=self.target_lengths.to(device, non_blocking=True),
            rows=self.rows,
            source_features=None if self.source_features is None else self.source_features.to(device),
        )


class PaddingEfficiency(NamedTuple):
    """The share of places in the batches of a plan that hold a token; the rest is padding."""

    source: float
    target: float


def plan_batches(
    source_lengths: LengthArray, target_lengths: LengthArray, *, budget: int, seed: int, epoch: int, part: int = 0
) -> list[Rows]:
    """The batches of an epoch, or of a part of it, as indices of examples: every example once.

    Lengths are those of the stores, without symbols. Of each batch, either padded width (END or BEGIN included) times
    the examples is at most `budget`: it bounds the padded source tokens as it bounds the padded target tokens.

    Examples are sorted by target length, then source length, ties at random; the sources run up in one target length
    and down in the next, so that a batch that spans two of them fits too. Which way the sorting starts and the order of
    the batches are drawn from (seed, epoch, part). Raises DataError where an example is longer than the budget.
    """
    generator = np.random.default_rng([seed, epoch, part] if part else [seed, epoch])
    widths = np.maximum(source_lengths, target_lengths).astype(np.int64) + 1
    if len(widths) and widths.max() > budget:
        row = int(widths.argmax())
        raise DataError(
            f"example {row}: its {int(widths[row]):,} tokens, end symbol included, exceed the budget of {budget:,} "
            "tokens a batch; raise the budget (training.batch_tokens), or lower data.max_source_length and "
            "data.max_target_length"
        )
    order = _by_length(source_lengths, target_lengths, generator)
    batches = _cut(order, widths, budget)
    return [batches[index] for index in generator.permutation(len(batches))]


def plan_batches_in_order(source_lengths: LengthArray, target_lengths: LengthArray, *, budget: int) -> list[Rows]:
    """Batches for validation: by length, shortest first, without chance; an example over the budget is alone."""
    widths = np.maximum(source_lengths, target_lengths).astype(np.int64) + 1
    order = np.lexsort((source_lengths, target_lengths)).astype(np.int64)
    return _cut(order, widths, budget)


def padding_efficiency(
    batches: Sequence[Rows], source_lengths: LengthArray, target_lengths: LengthArray
) -> PaddingEfficiency:
    """How much of the batches of a plan is tokens, symbols included."""

    def share(lengths: LengthArray) -> float:
        places = sum(len(rows) * (int(lengths[rows].max()) + 1) for rows in batches)
        tokens = sum(len(rows) + int(lengths[rows].sum()) for rows in batches)
        return tokens / places if places else 1.0

    return PaddingEfficiency(share(source_lengths), share(target_lengths))


def collate(store: TokenStore, rows: Rows, source_features: StoredFeatures | None = None) -> Batch:
    """The examples of `rows`, padded to the longest among them; `source_features` are those of the store."""
    source, source_lengths = _padded(store.source, rows, shift=0)
    target, target_lengths = _padded(store.target, rows, shift=1)
    expected, _ = _padded(store.target, rows, shift=0)
    target[:, 0] = BOS
    each = np.arange(len(rows))
    source[each, source_lengths - 1] = EOS
    expected[each, target_lengths - 1] = EOS
    return Batch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target=torch.from_numpy(target),
        labels=torch.from_numpy(expected),
        target_lengths=torch.from_numpy(target_lengths),
        rows=rows,
        source_features=None
        if source_features is None
        else source_features.features(store.origins[rows], source, source_lengths),
    )


def batches_in_order(
    store: TokenStore, *, budget: int, source_features: StoredFeatures | None = None
) -> Iterator[Batch]:
    """All examples once, by length; `Batch.rows` says where each belongs."""
    for rows in plan_batches_in_order(store.source_lengths, store.target_lengths, budget=budget):
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
    """Batches of pairs for ever, epoch after epoch, in parts of at most `window` pairs drawn from all of the store.

    `store` is one for all epochs, or a function from the epoch (from 0) to its store, as BPE dropout needs. `budget`
    bounds the padded tokens of a batch on each side. Every pair stands once in an epoch, or as often as `times` say of
    each, on average. Raises DataError where there is no example.
    """

    def epoch(number: int) -> PartitionedEpoch[Batch]:
        own = store(number) if callable(store) else store
        parts = max(1, -(-len(own) // window))

        def part_of(part: int) -> Epoch[Batch]:
            drawn = part_rows(len(own), part, parts=parts, seed=seed, epoch=number)
            if weights is not None:
                place = (seed, number, part) if part else (seed, number)
                drawn = drawn[sample_rows(weights.weights_of(drawn), seed=place)]
            lengths = own.source_lengths[drawn], own.target_lengths[drawn]
            batches = plan_batches(*lengths, budget=budget, seed=seed, epoch=number, part=part)
            return Epoch(batches, lambda _, places: collate(own, drawn[places], source_features))

        return PartitionedEpoch(parts, part_of)

    return EpochStream(epoch)


def part_rows(count: int, part: int, *, parts: int, seed: int, epoch: int) -> Rows:
    """The rows of a part of an epoch, in their order; every one of `count` is in one part, drawn from (seed, epoch)."""
    first, last = part * count // parts, (part + 1) * count // parts
    places = np.arange(first, last)
    return places if parts == 1 else np.sort(permute_indices(places, count, seed=(seed, epoch)))


def _by_length(source_lengths: LengthArray, target_lengths: LengthArray, generator: np.random.Generator) -> Rows:
    shuffled = generator.permutation(len(target_lengths))
    down = generator.random() < 0.5
    source, target = _narrow(source_lengths[shuffled]), _narrow(target_lengths[shuffled])
    turned = np.where((target % 2 == 1) ^ down, -source, source)
    order: Rows = shuffled[np.lexsort((turned, target))].astype(np.int64)
    return order[::-1].copy() if generator.random() < 0.5 else order


def _narrow(lengths: LengthArray) -> NDArray[Any]:
    """The same numbers in the type that is sorted fastest."""
    fits = not len(lengths) or int(lengths.max()) <= np.iinfo(np.int16).max
    return lengths.astype(np.int16 if fits else np.int64)


def _cut(order: Rows, widths: Rows, budget: int) -> list[Rows]:
    """Cut a sorted order into the longest stretches whose examples times widest example stay within the budget."""
    ordered, counts = widths[order], np.arange(1, budget + 1)
    batches: list[Rows] = []
    start = 0
    while start < len(order):
        most = max(1, budget // int(ordered[start]))  # as many as there are if none is wider than the first
        widest = np.maximum.accumulate(ordered[start : start + most])
        beyond = widest * counts[: len(widest)] > budget
        stop = start + max(1, int(beyond.argmax()) if beyond.any() else len(widest))
        batches.append(order[start:stop])
        start = stop
    return batches


def _padded(side: RaggedArray, rows: Rows, *, shift: int) -> tuple[Rows, Rows]:
    """Ids from place `shift` on in rows that have room for one symbol, and the lengths with that symbol."""
    lengths = side.lengths[rows].astype(np.int64) + 1
    padded = np.full((len(rows), int(lengths.max())), PAD, dtype=np.int64)
    side.fill(rows, padded[:, shift : padded.shape[1] - 1 + shift])
    return padded, lengths
