"""Prefetching: a background thread builds batches while the trainer uses earlier ones."""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar, final

from dragoman.data.batching.batch_streams import BatchStream

_B = TypeVar("_B")


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
