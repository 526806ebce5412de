"""Batches made in the background while those before are learnt from, in the same order and with the same places."""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar, final

from dragoman.data.batching.epochs import BatchStream

B = TypeVar("B")


class _Made(NamedTuple, Generic[B]):
    """A batch, and the place behind it."""

    batch: B
    position: dict[str, int]


@final
class PrefetchingStream(Generic[B]):
    """Implements `data.epochs.Stream` as the stream behind it does, a few batches ahead of who asks.

    One thread makes all batches, one after the other, so that what they are is what they would have been. What goes
    wrong in it is raised where the batch is asked for.
    """

    def __init__(self, stream: BatchStream[B], *, count: int = 2, epochs: int | None = None) -> None:
        """So many batches are kept ready, none of epoch `epochs` (from 0), where the training ends, or later."""
        self._stream = stream
        self._count = count
        self._epochs = epochs
        self._position = stream.position
        self._coming: deque[Future[_Made[B] | None]] = deque()
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="batches")

    @property
    def position(self) -> dict[str, int]:
        """The `epoch` and `batch` that come next."""
        return self._position

    def seek(self, position: Mapping[str, int]) -> None:
        """Go to a position that the same data and settings gave. Raises DataError where there is no such batch."""
        self._forget()
        self._stream.seek(position)
        self._position = self._stream.position

    def batches_per_epoch(self) -> int:
        """Batches of the epoch in which the next one is."""
        self.seek(self._position)
        return self._stream.batches_per_epoch()

    def __next__(self) -> B:
        made = self._coming.popleft().result() if self._coming else self._make()
        if made is None:  # it was beyond the end, and is asked for after all
            self._forget()
            made = self._make()
        self._position = made.position
        while len(self._coming) < self._count:
            self._coming.append(self._maker.submit(self._make_before_the_end))
        return made.batch

    def _make(self) -> _Made[B]:
        return _Made(next(self._stream), self._stream.position)

    def _make_before_the_end(self) -> _Made[B] | None:
        ended = self._epochs is not None and self._stream.position["epoch"] >= self._epochs
        return None if ended else self._make()

    def _forget(self) -> None:
        """Let the thread end what it is at, for the stream is its own until then."""
        for coming in self._coming:
            coming.cancel()
        for coming in self._coming:
            if not coming.cancelled():
                coming.exception()
        self._coming.clear()
