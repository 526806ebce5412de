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
class Stream(Protocol[B_co]):
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
class EpochStream(Generic[B]):
    """Implements `Stream`: what comes next follows from the position alone."""

    def __init__(self, epoch_of: Callable[[int], Epoch[B]]) -> None:
        """`epoch_of` gives the batches of an epoch, from 0. Raises DataError where it gives none."""
        self._epoch_of = epoch_of
        self._number = -1
        self._index = 0
        self._enter(0)

    @property
    def position(self) -> dict[str, int]:
        """The `epoch` and `batch` that come next; after the last batch of an epoch, the first of the next."""
        if self._index == len(self._epoch):
            return {"epoch": self._number + 1, "batch": 0}
        return {"epoch": self._number, "batch": self._index}

    def seek(self, position: Mapping[str, int]) -> None:
        """Go to a position that the same data and settings gave. Raises DataError where there is no such batch."""
        epoch, index = position["epoch"], position["batch"]
        self._enter(epoch)
        if not 0 <= index < len(self._epoch):
            raise DataError(
                f"the stream has {len(self._epoch)} batches in epoch {epoch}, none with index {index}: the data, "
                "the tokenizer or the budget changed since the checkpoint; train in a new run folder"
            )
        self._index = index

    def batches_per_epoch(self) -> int:
        """Batches of this epoch; another one may have a few more or less."""
        return len(self._epoch)

    def __iter__(self) -> Iterator[B]:
        return self

    def __next__(self) -> B:
        if self._index == len(self._epoch):
            self._enter(self._number + 1)
        batch = self._epoch[self._index]
        self._index += 1
        return batch

    def _enter(self, number: int) -> None:
        if number != self._number:
            epoch = self._epoch_of(number)
            if not len(epoch):
                raise DataError("there is no example to make batches of; check the corpus")
            self._epoch, self._number = epoch, number
        self._index = 0
