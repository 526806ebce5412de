"""Batches for ever, epoch after epoch, with a place to come back to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import DataError

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)

Rows = NDArray[np.int64]


@runtime_checkable
class BatchStream(Protocol[B_co]):
    """Batches without end, with a place to come back to."""

    @property
    def position(self) -> dict[str, int]: ...

    def seek(self, position: Mapping[str, int]) -> None: ...

    def batches_per_epoch(self) -> int: ...

    def __next__(self) -> B_co: ...


@final
@dataclass(frozen=True)
class Epoch(Generic[B]):
    """The batches of one pass over a corpus, each made when it is asked for."""

    plan: Sequence[Rows]
    """What goes into each batch."""
    make: Callable[[int, Any], B]
    """The batch with this number, from 0, out of what its plan says."""

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, index: int) -> B:
        return self.make(index, self.plan[index])

    def __iter__(self) -> Iterator[B]:
        return (self[index] for index in range(len(self)))


@final
@dataclass(frozen=True)
class PartitionedEpoch(Generic[B]):
    """The batches of one pass over a corpus that is too large to be planned at once: part after part."""

    num_parts: int
    plan_part: Callable[[int], Epoch[B]]
    """The batches of a part, from 0; all parts have about equally many."""


@final
class EpochStream(Generic[B]):
    """Implements `Stream`: what comes next follows from the position alone.

    Of an epoch in parts, one is planned at a time, so that neither memory nor the way to a place grow with the corpus.
    """

    def __init__(self, epoch_of: Callable[[int], Epoch[B] | PartitionedEpoch[B]]) -> None:
        """`epoch_of` gives the batches of an epoch, from 0. Raises DataError where it gives none."""
        self._epoch_of = epoch_of
        self._number = self._part = -1
        self._index = 0
        self._enter(0)

    @property
    def position(self) -> dict[str, int]:
        """The `epoch`, its `part` where that is not the first, and the `batch` that come next.

        After the last batch of an epoch, that is the first of the next.
        """
        if self._index < len(self._epoch):
            return _position(self._number, self._part, self._index)
        return _position(*self._next_part(), 0)

    def seek(self, position: Mapping[str, int]) -> None:
        """Go to a position that the same data and settings gave. Raises DataError where there is no such batch."""
        epoch, part, index = position["epoch"], position.get("part", 0), position["batch"]
        self._enter(epoch, part)
        if not (0 <= part < self._parts.num_parts and 0 <= index < len(self._epoch)):
            where = f"epoch {epoch}" if part == 0 else f"part {part} of epoch {epoch}"
            raise DataError(
                f"the stream has {len(self._epoch)} batches in {where}, none with index {index}: the data, "
                "the tokenizer or the budget changed since the checkpoint; train in a new run folder"
            )
        self._index = index

    def batches_per_epoch(self) -> int:
        """Batches of this epoch, where it has parts about so many; another one may have a few more or less."""
        return len(self._epoch) * self._parts.num_parts

    def __iter__(self) -> Iterator[B]:
        return self

    def __next__(self) -> B:
        if self._index == len(self._epoch):
            self._enter(*self._next_part())
        batch = self._epoch[self._index]
        self._index += 1
        return batch

    def _next_part(self) -> tuple[int, int]:
        """The epoch and the part behind this one."""
        last = self._part + 1 == self._parts.num_parts
        return (self._number + 1, 0) if last else (self._number, self._part + 1)

    def _enter(self, number: int, part: int = 0) -> None:
        if number != self._number:
            made = self._epoch_of(number)
            self._parts = made if isinstance(made, PartitionedEpoch) else _in_one(made)
            self._number, self._part = number, -1
        if part != self._part and 0 <= part < self._parts.num_parts:
            self._epoch, self._part = self._parts.plan_part(part), part
            if not len(self._epoch):
                raise DataError("there is no example to make batches of; check the corpus")
        self._index = 0


def _in_one(epoch: Epoch[B]) -> PartitionedEpoch[B]:
    return PartitionedEpoch(1, lambda _: epoch)


def _position(epoch: int, part: int, batch: int) -> dict[str, int]:
    return {"epoch": epoch, **({"part": part} if part else {}), "batch": batch}
