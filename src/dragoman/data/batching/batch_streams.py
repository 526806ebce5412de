"""Batches and endless resumable streams of batches, which a background thread may build ahead of the trainer."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar, final, runtime_checkable

import torch

from dragoman.array_types import Rows, SourceFeatures
from dragoman.errors import DataError

_B = TypeVar("_B")
_B_co = TypeVar("_B_co", covariant=True)


@dataclass(frozen=True)
class RowBatch:
    """Base class of batches: tensors with one row per example."""

    rows: Rows
    """Index of each example in its data set."""

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.rows)

    @property
    def target_count(self) -> int:
        """Number of predictions over which the loss is averaged."""
        return len(self.rows)

    def to(self, device: torch.device) -> Self:
        """Return the batch with its tensors on a device."""
        moved: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, torch.Tensor):
                moved[field.name] = value.to(device, non_blocking=True)
            elif isinstance(value, SourceFeatures):
                moved[field.name] = value.to(device)
        return replace(self, **moved)


@runtime_checkable
class BatchStream(Protocol[_B_co]):
    """Endless resumable batches."""

    @property
    def position(self) -> dict[str, int]: ...

    def seek(self, position: Mapping[str, int]) -> None: ...

    def batches_per_epoch(self) -> int: ...

    def __next__(self) -> _B_co: ...


Epoch = Sequence[Callable[[], _B]]
"""Batches of one pass over a corpus, each as a function that builds it."""


@final
@dataclass(frozen=True)
class PartitionedEpoch(Generic[_B]):
    """Batches of one pass over a corpus too large to plan at once."""

    num_parts: int
    plan_part: Callable[[int], Epoch[_B]]
    """Function from a part (from 0) to its batches; all parts have about the same number."""


@final
class EpochStream(Generic[_B]):
    """Stream whose next batch depends on the position alone; implements `BatchStream`.

    One part of an epoch is planned at a time, so that memory and the time to seek do not grow with the corpus.
    """

    def __init__(self, epoch_of: Callable[[int], Epoch[_B] | PartitionedEpoch[_B]]) -> None:
        """`epoch_of` gives the batches of an epoch, from 0. Raises DataError if there are none."""
        self._epoch_of = epoch_of
        self._number = self._part = -1
        self._index = 0
        self._enter(0)

    @property
    def position(self) -> dict[str, int]:
        """`epoch`, `part` (unless 0) and `batch` of the next batch; after an epoch, the first of the next epoch."""
        if self._index < len(self._epoch):
            return _position(self._number, self._part, self._index)
        return _position(*self._next_part(), 0)

    def seek(self, position: Mapping[str, int]) -> None:
        """Go to a position that the same data and settings gave. Raises DataError if it does not exist."""
        match position:
            case {"epoch": epoch, "batch": index}:
                part = position.get("part", 0)
            case _:
                raise DataError("the checkpoint has no position in the data; train in a new run folder")
        self._enter(epoch, part)
        if not (0 <= part < self._parts.num_parts and 0 <= index < len(self._epoch)):
            where = f"epoch {epoch}" if part == 0 else f"part {part} of epoch {epoch}"
            raise DataError(
                f"the stream has {len(self._epoch)} batches in {where}, none with index {index}: the data, "
                "the tokenizer or the budget changed since the checkpoint; train in a new run folder"
            )
        self._index = index

    def batches_per_epoch(self) -> int:
        """Return the number of batches of this epoch, an estimate if the epoch has several parts."""
        return len(self._epoch) * self._parts.num_parts

    def __iter__(self) -> Iterator[_B]:
        return self

    def __next__(self) -> _B:
        if self._index == len(self._epoch):
            self._enter(*self._next_part())
        batch = self._epoch[self._index]()
        self._index += 1
        return batch

    def _next_part(self) -> tuple[int, int]:
        """Return the epoch and the part after this part."""
        last = self._part + 1 == self._parts.num_parts
        return (self._number + 1, 0) if last else (self._number, self._part + 1)

    def _enter(self, number: int, part: int = 0) -> None:
        if number != self._number:
            epoch = self._epoch_of(number)
            self._parts = epoch if isinstance(epoch, PartitionedEpoch) else PartitionedEpoch(1, lambda _: epoch)
            self._number, self._part = number, -1
        if part != self._part and 0 <= part < self._parts.num_parts:
            self._epoch, self._part = self._parts.plan_part(part), part
            if not len(self._epoch):
                raise DataError("there is no example to make batches of; check the corpus")
        self._index = 0


def _position(epoch: int, part: int, batch: int) -> dict[str, int]:
    return {"epoch": epoch, **({"part": part} if part else {}), "batch": batch}


@final
class PrefetchingStream(Generic[_B]):
    """`BatchStream` that stays a few batches ahead of its reader, with the same batches and positions.

    One thread builds all batches in order. An error in the thread is raised when its batch is requested.
    """

    def __init__(self, stream: BatchStream[_B], *, count: int = 2, epochs: int | None = None) -> None:
        """`count` batches are kept ready, none of epoch `epochs` (from 0), with which training ends, or later."""
        self._stream = stream
        self._count = count
        self._epochs = epochs
        self._position = stream.position
        self._pending: deque[Future[tuple[_B, dict[str, int]] | None]] = deque()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="batches")

    @property
    def position(self) -> dict[str, int]:
        """`epoch` and `batch` of the next batch."""
        return self._position

    def seek(self, position: Mapping[str, int]) -> None:
        """Go to a position that the same data and settings gave. Raises DataError if it does not exist."""
        self._discard()
        self._stream.seek(position)
        self._position = self._stream.position

    def batches_per_epoch(self) -> int:
        """Return the number of batches of the epoch of the next batch."""
        self.seek(self._position)
        return self._stream.batches_per_epoch()

    def __next__(self) -> _B:
        made = self._pending.popleft().result() if self._pending else self._build()
        if made is None:  # requested although beyond the last epoch
            self._discard()
            made = self._build()
        batch, self._position = made
        while len(self._pending) < self._count:
            self._pending.append(self._executor.submit(self._build_before_end))
        return batch

    def _build(self) -> tuple[_B, dict[str, int]]:
        return next(self._stream), self._stream.position

    def _build_before_end(self) -> tuple[_B, dict[str, int]] | None:
        ended = self._epochs is not None and self._stream.position["epoch"] >= self._epochs
        return None if ended else self._build()

    def _discard(self) -> None:
        """Wait until the thread is idle, because it owns the stream until then."""
        for future in self._pending:
            future.cancel()
        for future in self._pending:
            if not future.cancelled():
                future.exception()
        self._pending.clear()
