"""Batches of encoded examples in memory: shuffled and without end to learn from, or once and in order to judge by.

What an example is made of is the matter of the set it belongs to; here only its length counts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching.epochs import Epoch, EpochStream, Rows
from dragoman.data.batching.token_batches import LengthArray, plan_batches, plan_batches_in_order
from dragoman.data.datasets.parallel import RaggedArray
from dragoman.errors import DataError

Ids = NDArray[np.int64]
B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)


class InMemoryDataset(Protocol[B_co]):
    """Examples as ids, by index."""

    @property
    def lengths(self) -> LengthArray:
        """Tokens of each example, symbols included."""
        ...

    def collate(self, rows: Rows) -> B_co:
        """The examples of `rows`, padded to the longest among them."""
        ...


def to_ragged(sequences: Sequence[Sequence[int]]) -> RaggedArray:
    """Sequences of different lengths in one array."""
    lengths = np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))
    values = np.fromiter((value for sequence in sequences for value in sequence), dtype=np.int32)
    return RaggedArray(values, lengths)


def pad_batch(side: RaggedArray, rows: Rows, *, padding: int) -> Ids:
    """The sequences of `rows`, with `padding` after them."""
    rectangle = np.full((len(rows), int(side.lengths[rows].max())), padding, dtype=np.int64)
    side.fill(rows, rectangle)
    return rectangle


def example_stream(
    examples: InMemoryDataset[B] | Callable[[int], InMemoryDataset[B]], *, budget: int, seed: int
) -> EpochStream[B]:
    """Batches for ever; their padded tokens are within `budget`, and `seed` orders them, epoch by epoch.

    `examples` are the same in all epochs, or follow from the epoch (from 0), as BPE dropout needs. Raises DataError
    where there is no example, and where one is longer than the budget.
    """

    def epoch(number: int) -> Epoch[B]:
        own = examples(number) if callable(examples) else examples
        _refuse_beyond(own.lengths, budget)
        widths = _without_symbol(own.lengths)
        batches = plan_batches(widths, widths, budget=budget, seed=seed, epoch=number)
        return Epoch(batches, lambda _, rows: own.collate(rows))

    return EpochStream(epoch)


def _refuse_beyond(lengths: LengthArray, budget: int) -> None:
    if len(lengths) and lengths.max() > budget:
        raise DataError(
            f"example {int(lengths.argmax())}: its {int(lengths.max()):,} tokens exceed the budget of {budget:,} a "
            "batch; raise training.batch_tokens, or have fewer tokens read: data.max_length, or data.windows.max_length"
        )


def examples_in_order(examples: InMemoryDataset[B], *, budget: int) -> Iterator[B]:
    """All examples once, shortest first; the padded tokens of a batch are within `budget`, unless it is one example."""
    widths = _without_symbol(examples.lengths)
    for rows in plan_batches_in_order(widths, widths, budget=budget):
        yield examples.collate(rows)


def _without_symbol(lengths: LengthArray) -> LengthArray:
    """The lengths as `plan` counts them, which adds one for a symbol."""
    return lengths - 1
