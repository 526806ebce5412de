"""Execution of requests: by the caller, or by an engine, one thread that decodes those of any number of callers."""

import asyncio
import atexit
import logging
import operator
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Self, final
from weakref import finalize

from dragoman.config import parse
from dragoman.decoding.config import DecodingConfig, SamplingConfig, require_config
from dragoman.decoding.hypothesis import Hypothesis, OutputStart
from dragoman.errors import ConfigError, DataError, shorten
from dragoman.inference.backends.protocol import RunsRequests
from dragoman.inference.concurrent_calls import EngineStatistics, FairLock, FairQueue, OwnerProcess, gather, time_slice
from dragoman.inference.length_batches import BATCH_TOKENS
from dragoman.inference.scheduler import AnyBackend, Request, RequestResult, Scheduler, run_in_order, run_requests
from dragoman.inference.text_segmentation import MAX_LINE_LENGTH

PendingResult = Future[list[Hypothesis]]
"""Future hypotheses of a request, best first; `cancel` withdraws the request at any time."""
MAX_SHARED_BEAM_SIZE = 100
"""Hypotheses per beam of a request to an engine, so that a step of it takes a fraction of a second."""
SMALL_CALL = 8
"""Requests of a call that are active or waiting, up to which it is small."""
SMALL_REQUEST = 1 / 16
"""Share of the token budget, up to which a request is small."""
SUBMITTED_AT_ONCE = 256
"""Requests of a coroutine after which others run."""
_MAX_ID = 2**31 - 1
_logger = logging.getLogger(__name__)


@final
class Engine:
    """Backend shared by many callers, whose requests enter the running batch by turns.

    Results depend on other requests as little as those of `scheduler`. An error, of any kind, reaches the caller of its
    request only. Callbacks of results run in the thread of the engine: they may submit, cancel, close and raise, but
    others wait for them.
    """

    def __init__(
        self,
        backend: AnyBackend,
        *,
        max_tokens: int = BATCH_TOKENS,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """`max_tokens` bounds the tokens of active requests, and again those of small calls.

        The engine holds `lock` while it uses the backend, so that others may use the backend too.
        """
        self._backend = backend
        self._backend_lock = lock or nullcontext()
        self._scheduler = Scheduler(backend, max_tokens=max_tokens)
        self._small_request = max_tokens * SMALL_REQUEST
        self._waiting: dict[bool, FairQueue[Request]] = {True: FairQueue(), False: FairQueue()}
        """Requests by whether they are of small calls, which do not wait for others."""
        self._results: dict[Request, tuple[PendingResult, Hashable]] = {}
        self._submitted: dict[Request, float] = {}
        """Times at which requests were submitted that have not taken a step yet."""
        self._statistics = EngineStatistics()
        self._unfinished: Counter[Hashable] = Counter()
        self._withdrawn: set[Request] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="dragoman engine", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(cancel=kind is not None)

    @property
    def is_open(self) -> bool:
        """True if the engine accepts requests."""
        return not self._closed and self._thread.is_alive()

    @property
    def statistics(self) -> EngineStatistics:
        """Measurements up to now."""
        waiting = sum(map(len, self._waiting.values()))
        return replace(self._statistics, waiting=waiting, running=max(0, len(self._results) - waiting))

    def submit(self, request: Request, *, call: Hashable = None) -> PendingResult:
        """Submit a request; those of a call, an object of its own, take turns with those of others.

        Raises TypeError, ConfigError or DataError on an invalid request, RuntimeError if the engine is closed.
        """
        checked = check_request(request, self._backend)  # a copy: the caller may submit the same request again
        result: PendingResult = Future()
        with self._changed:
            if not self.is_open:
                raise RuntimeError("the engine is closed")
            call = checked if call is None else call
            small = self._unfinished[call] < SMALL_CALL and checked.tokens <= self._small_request
            checked = replace(checked, small=small)
            self._unfinished[call] += 1
            self._results[checked] = result, call
            self._submitted[checked] = time.monotonic()
            self._waiting[small].append(checked, size=checked.tokens, call=call)
            self._changed.notify_all()
        result.add_done_callback(partial(self._on_done, checked))
        return result

    def run(self, requests: Iterable[Request]) -> list[list[Hypothesis]]:
        """Return the results of requests in their order; the error of one is raised and cancels the others."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a callback of an engine cannot wait for results of the same engine; submit requests")
        pending: list[PendingResult] = []
        call = object()
        try:
            pending.extend(self.submit(request, call=call) for request in requests)
            return [result.result() for result in pending]
        finally:
            for result in pending:
                result.cancel()

    def close(self, *, cancel: bool = False) -> None:
        """Accept no more requests, and wait until those submitted are completed, or cancelled.

        A callback does not wait.
        """
        with self._changed:
            self._closed = True
            results = [result for result, _ in self._results.values()] if cancel else []
            self._changed.notify_all()
        for result in results:
            result.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        atexit.unregister(self.stop)

    def stop(self) -> None:
        """End the thread before the interpreter, which may abort while a thread is inside a backend."""
        if self._thread.is_alive():  # a forked process has no such thread, and its lock may be held
            self.close(cancel=True)

    def _run(self) -> None:
        try:
            while self._has_work():
                with self._backend_lock, self._backend.inference_mode():
                    completed = self._compute()
                self._deliver(completed)
        except BaseException as error:
            self._fail(error)
            raise

    def _compute(self) -> list[RequestResult]:
        """Take steps until a request is completed, or the time slice ends."""
        for _ in time_slice():
            self._admit()
            begin = time.monotonic()
            completed = self._scheduler.step()
            self._measure(begin, completed)
            if completed or not len(self._scheduler):
                return completed
        return []

    def _measure(self, begin: float, completed: Sequence[RequestResult]) -> None:
        """Note the measurements of the step that began at a time."""
        statistics, end = self._statistics, time.monotonic()
        statistics.batch_size.add(self._scheduler.batch_size)
        for request in self._scheduler.entered:
            submitted = self._submitted.pop(request, None)
            if submitted is not None:  # not one that is started again
                statistics.queue_time.add(begin - submitted)
                statistics.time_to_first_token.add(end - submitted)
        for one in completed:
            statistics.prompt_tokens += len(one.request.ids)
            statistics.generation_tokens += sum(len(hypothesis.tokens) for hypothesis in one.hypotheses)

    def _admit(self) -> None:
        """Drop cancelled requests, and let waiting ones that fit enter."""
        with self._changed:
            gone = self._withdrawn & self._results.keys()
            self._withdrawn.clear()
            if gone:
                self._scheduler.cancel(gone)
            for queue in self._waiting.values():
                if gone:
                    queue.remove(gone)
                self._scheduler.admit(queue)
            results = [self._remove(request) for request in gone]
        for result in results:
            _set_result(result, [], None)

    def _on_done(self, request: Request, result: PendingResult) -> None:
        """Note a request that its caller cancelled, to drop it before the next step."""
        if result.cancelled():
            with self._changed:
                self._withdrawn.add(request)

    def _has_work(self) -> bool:
        """Wait for requests; return False when the engine is closed and idle."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._results)
            return bool(self._results)

    def _deliver(self, completed: Sequence[RequestResult]) -> None:
        with self._changed:
            results = [self._remove(one.request) for one in completed]
        for result, one in zip(results, completed, strict=True):  # callbacks hold no lock
            _set_result(result, one.hypotheses, one.error)

    def _remove(self, request: Request) -> PendingResult:
        """Forget a request, and return its future."""
        result, call = self._results.pop(request)
        self._submitted.pop(request, None)
        self._unfinished[call] -= 1
        if not self._unfinished[call]:
            del self._unfinished[call]
            for queue in self._waiting.values():
                queue.forget(call)
        return result

    def _fail(self, error: BaseException) -> None:
        """Pass an internal error to all callers, so that none waits for ever."""
        with self._changed:
            self._closed = True
            results = [self._remove(request) for request in [*self._results]]
            self._changed.notify_all()
        for result in results:
            _set_result(result, [], error)


def _set_result(result: PendingResult, hypotheses: list[Hypothesis], error: BaseException | None) -> None:
    """Complete a future once, and notify the waiters of a cancelled one."""
    try:
        if not result.set_running_or_notify_cancel():
            return
        if error is None:
            result.set_result(hypotheses)
        else:
            result.set_exception(error)
    except BaseException:  # SystemExit of a callback, or a future that its owner completed
        _logger.exception("the result of a request could not be delivered")


def check_request(request: Any, backend: AnyBackend) -> Request:
    """Return a copy of a request that the caller cannot change.

    Raises TypeError on values of wrong type, ConfigError or DataError on those out of range.
    """
    if not isinstance(request, Request):
        raise TypeError(f"request = {shorten(request)} is no Request. Give one for each source.")
    config = _check_config(require_config(request.config, DecodingConfig, SamplingConfig))
    needs_heads: bool = getattr(backend, "needs_source_features", False)
    if (request.heads is not None) != needs_heads:
        raise DataError(
            "heads is missing, and this model needs the dependency tree of each source. Give its heads."
            if needs_heads
            else f"heads = {shorten(request.heads)} has no effect on this model. Leave it out."
        )
    start = request.start
    if not isinstance(start, OutputStart) or not (start.observe is None or callable(start.observe)):
        raise TypeError(f"start = {shorten(start)} is no OutputStart. Leave it out, or give one.")
    token, context = _number(start.token, "start.token"), _numbers(start.context, "start.context")
    first, second = _numbers(start.key, "start.key", most=2**64 - 1, length=2)
    return Request(
        _numbers(request.ids, "ids"),
        config,
        _number(request.limit, "limit", least=1),
        None if request.heads is None else _numbers(request.heads, "heads"),
        OutputStart(
            token,
            context,
            (first, second),
            None if start.seed is None else _number(start.seed, "start.seed", most=2**64 - 1),
            start.observe,
            _numbers(start.forced, "start.forced"),
            _number(start.alternatives, "start.alternatives"),
            start.constraints,
        ),
        None if request.size is None else _number(request.size, "size", least=1),
    )


@lru_cache(maxsize=256)
def _check_config(config: Any) -> DecodingConfig | SamplingConfig:
    """Return a configuration with checked values, which `model_copy` and `model_construct` do not check."""
    checked = parse(type(config), dict(config), where="config.")
    if isinstance(checked, DecodingConfig) and checked.beam_size > MAX_SHARED_BEAM_SIZE:
        raise ConfigError(
            f"beam_size = {checked.beam_size} is more than {MAX_SHARED_BEAM_SIZE}, and concurrent calls would wait for "
            f"each of its steps. Choose {MAX_SHARED_BEAM_SIZE} at most, or call `translate` by asyncio.to_thread."
        )
    return checked


def _numbers(values: Any, name: str, *, most: int = _MAX_ID, length: int | None = None) -> tuple[int, ...]:
    """Return whole numbers from 0 to `most`, `length` or at most `MAX_LINE_LENGTH` of them."""
    if isinstance(values, str | bytes | bytearray | Mapping) or not isinstance(values, Collection):
        raise TypeError(f"{name} = {shorten(values)} is no sequence of whole numbers. Give a list.")
    if len(values) > MAX_LINE_LENGTH or length not in (None, len(values)):
        allowed = f"{length}" if length is not None else f"at most {MAX_LINE_LENGTH:,}"
        raise DataError(f"{name} has {len(values):,} numbers, and {allowed} are expected. Give as many.")
    return tuple(_number(value, name, most=most) for value in values)


def _number(value: Any, name: str, *, least: int = 0, most: int = _MAX_ID) -> int:
    """Return a whole number in a range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {shorten(value)} is no whole number. Give one.") from None
    if not least <= number <= most:
        raise DataError(f"{name}: {shorten(number)} is not from {least:,} to {most:,}. Choose a number within.")
    return number


@final
class RequestRunner:
    """Decodes the requests of a translator or generator, for threads and coroutines, which take turns."""

    def __init__(self, backend: AnyBackend, *, batch_tokens: int) -> None:
        self.backend = backend
        self._process, self._lock = OwnerProcess(), FairLock()
        self._batch_tokens = batch_tokens
        self._engine: Engine | None = None
        self._starting = threading.Lock()

    @property
    def statistics(self) -> EngineStatistics:
        """Measurements of the engine; those of a closed engine are forgotten."""
        return EngineStatistics() if self._engine is None else self._engine.statistics

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Use the backend for one step or batch."""
        self._process.check()
        with self._lock.turn(), self.backend.inference_mode():
            yield

    def run(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request."""
        if isinstance(self.backend, RunsRequests):
            return self.backend.run_requests(requests)
        return run_requests(self.backend, requests, batch_tokens=self._batch_tokens, turn=self.turn)

    def stream(self, jobs: Iterable[Sequence[Request]], *, ahead: int) -> Iterator[list[list[Hypothesis]]]:
        """Yield the hypotheses of each job, as `run_in_order` does."""
        scheduler = Scheduler(self.backend, max_tokens=self._batch_tokens)
        return run_in_order(scheduler, jobs, ahead=ahead, turn=self.turn)

    def steps(self, request: Request) -> Iterator[None]:
        """Decode one request, and yield after each step; its tokens go to its observer."""
        scheduler = Scheduler(self.backend, max_tokens=self._batch_tokens)
        scheduler.admit(deque([request]))
        completed: list[RequestResult] = []
        while not completed:
            with self.turn():
                completed = scheduler.step()
            yield
        completed[0].get()

    async def run_async(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, decoded in one running batch with all other calls of this method.

        When the coroutine is cancelled, or a request fails, the engine drops the others before its next step.
        """
        if isinstance(self.backend, RunsRequests):
            return self.backend.run_requests(requests)
        async with self.running(requests) as pending:
            return await gather(asyncio.wrap_future(one) for one in pending)

    @asynccontextmanager
    async def running(self, requests: Sequence[Request]) -> AsyncIterator[list[PendingResult]]:
        """Let requests enter the running batch; at the end of the block, those not completed leave it.

        The engine, started by the first call, takes turns with the other methods. Its thread completes each result
        after the tokens of the request were observed.
        """
        self._process.check()
        with self._starting:
            if self._engine is None or not self._engine.is_open:
                self._engine = Engine(self.backend, max_tokens=self._batch_tokens, lock=self._lock)
                finalize(self, self._engine.stop).atexit = False
            engine = self._engine
        pending: list[PendingResult] = []
        call = object()
        try:
            for number, request in enumerate(requests, start=1):
                pending.append(engine.submit(request, call=call))
                if number % SUBMITTED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            yield pending
        finally:
            for result in pending:
                result.cancel()
