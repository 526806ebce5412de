"""Concurrent calls of one model, which take turns: a lock and a queue, threads, and the process that owns a model.

`EngineStatistics` is what an engine measures of them.
"""

import asyncio
import os
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, fields
from heapq import heapify, heappop, heappush
from typing import Any, Generic, ParamSpec, Self, TypeVar, final

from dragoman.errors import RunError, one_warning_per_problem

_P = ParamSpec("_P")
_T = TypeVar("_T")
_I = TypeVar("_I", bound=Hashable)

Turn = Callable[[], AbstractContextManager[Any]]
"""Context in which a time slice or batch is computed, so that concurrent calls take turns."""
TIME_SLICE = 0.05
"""Seconds after which a call with further steps lets others have their turn; the last step may take longer."""
SHORT = 1000
"""Characters of a call that are tokenized in about a millisecond."""

_held: ContextVar["_HeldTurn | None"] = ContextVar("held", default=None)
_cancelled: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


async def run_in_thread(function: Callable[_P, _T], /, *args: _P.args, **options: _P.kwargs) -> _T:
    """Run a function in a thread, which stops at `stop_if_cancelled` when the coroutine is cancelled.

    The coroutine issues its warnings about texts, so that filters and the line of the caller apply.
    """
    cancelled = threading.Event()
    with one_warning_per_problem():
        context = copy_context()
        context.run(_cancelled.set, cancelled)
        try:
            return await asyncio.to_thread(lambda: context.run(function, *args, **options))
        except asyncio.CancelledError:
            cancelled.set()
            raise


@final
class ThreadQueue(Generic[_T]):
    """Queue of a coroutine, into which other threads put items."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items = asyncio.Queue[_T]()

    def put(self, item: _T) -> None:
        """Append an item; nobody waits for it where the event loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    async def get(self) -> _T:
        """Remove and return the first item, as soon as there is one."""
        return await self._items.get()


async def run_beside(texts: object, function: Callable[_P, _T], /, *args: _P.args, **options: _P.kwargs) -> _T:
    """Run a function on texts: at once for short ones, which costs less than a thread, otherwise in a thread."""
    some = [texts] if isinstance(texts, str) else texts
    if not isinstance(some, list) or sum(len(one) for one in some if isinstance(one, str)) > SHORT:
        return await run_in_thread(function, *args, **options)
    with one_warning_per_problem():
        return function(*args, **options)


async def gather(awaitables: Iterable[Awaitable[_T]]) -> list[_T]:
    """Return the results of awaitables as `asyncio.gather` does; one alone needs no task."""
    some = list(awaitables)
    return [await some[0]] if len(some) == 1 else await asyncio.gather(*some)


def stop_if_cancelled() -> None:
    """Raise CancelledError in a thread whose caller no longer waits for its result."""
    cancelled = _cancelled.get()
    if cancelled is not None and cancelled.is_set():
        raise CancelledError


def hand_over() -> None:
    """Let waiting threads have their turn before the next part of a batch, if this turn has lasted a time slice.

    Raises CancelledError as `stop_if_cancelled` does.
    """
    stop_if_cancelled()
    turn = _held.get()
    if turn is not None and time.monotonic() >= turn.end:
        turn.lock.hand_over()
        turn.end = time.monotonic() + TIME_SLICE


def time_slice() -> Iterator[None]:
    """Yield before each step of a time slice, at least once."""
    end = time.monotonic() + TIME_SLICE
    yield
    while time.monotonic() < end:
        yield


@final
class OwnerProcess:
    """Process that loaded a model. A fork of it has the memory of the model, but not the threads that compute it."""

    def __init__(self) -> None:
        self._number = os.getpid()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()  # a model that is unpickled belongs to the process that does so

    def check(self) -> None:
        """Raise RunError in a fork, whose calls would wait for ever."""
        if os.getpid() != self._number:
            raise RunError(
                "The model was loaded before this process was forked, and a fork has no copy of its threads. Load the "
                "model in the new process, or start processes with the method spawn."
            )


@final
class FairLock:
    """Lock that threads get in the order of their requests: a thread that releases it at once waits for the others."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._turns: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._mutex:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._turns.append(turn)
        try:
            turn.acquire()  # released by the thread whose turn ends
        except BaseException:  # Ctrl-C: the turn passes on
            with self._mutex:
                if turn in self._turns:
                    self._turns.remove(turn)
                else:
                    self._pass_on()
            raise

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._pass_on()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock, which `hand_over` passes to waiting threads."""
        with self:
            before = _held.set(_HeldTurn(self, time.monotonic() + TIME_SLICE))
            try:
                yield
            finally:
                _held.reset(before)

    def hand_over(self) -> None:
        """Pass the lock, which this thread holds, to the threads that wait for it, and get it back after them.

        An exception that interrupts the wait, such as that of Ctrl-C, is raised when the lock is back.
        """
        if not self._turns:
            return
        self.__exit__()
        interruption: BaseException | None = None
        while True:
            try:
                self.__enter__()
                break
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption

    def _pass_on(self) -> None:
        if self._turns:
            self._turns.popleft().release()
        else:
            self._held = False


@dataclass
class _HeldTurn:
    """Turn of this thread, and the time from which other threads may take one."""

    lock: FairLock
    end: float


@final
class FairQueue(Generic[_I]):
    """Queue that serves calls by turns, each in proportion to the size of its items; items of a call keep their order.

    Start-time fair queuing: an item starts where the item of its call before it ends, and at the item taken last at the
    earliest; the item that starts first is taken first.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _I]] = []
        self._ends: dict[Hashable, int] = {}
        self._now = 0
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __getitem__(self, place: int) -> _I:
        """Return the first item, which `popleft` removes, for place 0."""
        return self._heap[place][2]

    def append(self, item: _I, *, size: int, call: Hashable) -> None:
        """Append an item of a call, which is any object of its own."""
        start = max(self._now, self._ends.get(call, 0))
        self._ends[call] = start + size
        self._count += 1
        heappush(self._heap, (start, self._count, item))

    def popleft(self) -> _I:
        """Remove and return the first item."""
        self._now, _, item = heappop(self._heap)
        return item

    def forget(self, call: Hashable) -> None:
        """Forget a call that appends no more items."""
        self._ends.pop(call, None)

    def remove(self, items: Collection[_I]) -> None:
        """Remove items."""
        self._heap = [one for one in self._heap if one[2] not in items]
        heapify(self._heap)


@final
class Histogram:
    """Counts of values by upper bounds, and their sum. One thread adds values; others may read."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Values above the bound before, and up to this one; the last are above all bounds."""
        self.sum = 0.0

    def add(self, value: int | float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def __add__(self, other: Self) -> Self:
        """Return the histogram of the values of two, which have the same bounds."""
        found = type(self)(self.bounds)
        found.counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        found.sum = self.sum + other.sum
        return found


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = tuple(2.0**power for power in range(11))


@final
@dataclass
class EngineStatistics:
    """Measurements of an engine: what it has decoded since it was built, and its requests now."""

    running: int = 0
    """Requests that are decoded now."""
    waiting: int = 0
    """Requests that do not fit into the running batch yet."""
    prompt_tokens: int = 0
    """Tokens of sources and prompts of completed requests."""
    generation_tokens: int = 0
    """Tokens of the hypotheses of completed requests."""
    queue_time: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    """Seconds from the submission of a request until it is encoded."""
    time_to_first_token: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    """Seconds from the submission of a request to the end of its first step."""
    batch_size: Histogram = field(default_factory=lambda: Histogram(_SIZES))
    """Requests of each step."""

    def __add__(self, other: Self) -> Self:
        """Return the measurements of two engines together."""
        names = (one.name for one in fields(self))
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})
