"""Execution of requests: by the caller, or by an engine, one thread that decodes those of any number of callers."""

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Self, final

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.concurrent_calls import FairLock, FairQueue, OwnerProcess
from dragoman.inference.length_batches import BATCH_TOKENS
from dragoman.inference.scheduler import AnyBackend, Request, RequestResult, Scheduler, run_in_order, run_requests

PendingResult = Future[list[Hypothesis]]
"""Future hypotheses of a request, best first; `cancel` withdraws the request at any time."""


@final
class Engine:
    """Backend shared by many callers, whose requests enter the running batch by turns.

    Results depend on other requests as little as those of `scheduler`.
    """

    def __init__(
        self,
        backend: AnyBackend,
        *,
        max_tokens: int = BATCH_TOKENS,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """`max_tokens` bounds the tokens of active requests.

        The engine holds `lock` while it uses the backend, so that others may use the backend too.
        """
        self._backend = backend
        self._backend_lock = lock or nullcontext()
        self._scheduler = Scheduler(backend, max_tokens=max_tokens)
        self._waiting: FairQueue[Request] = FairQueue()
        self._results: dict[Request, PendingResult] = {}
        self._withdrawn: set[Request] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="dragoman engine", daemon=True)
        self._thread.start()
        atexit.register(self._close_at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(cancel=kind is not None)

    def submit(self, request: Request, *, call: Hashable = None) -> PendingResult:
        """Submit a request; those of a call, an object of its own, take turns with those of others.

        Raises RuntimeError if the engine is closed.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("the engine is closed")
            result: PendingResult = Future()
            request = replace(request)  # the caller may submit the same request again while it is active
            self._results[request] = result
            self._waiting.append(request, size=request.tokens, call=request if call is None else call)
            self._changed.notify_all()
        result.add_done_callback(partial(self._on_done, request))
        return result

    def run(self, requests: Iterable[Request]) -> list[list[Hypothesis]]:
        """Return the results of requests in their order; the error of one is raised and cancels the others."""
        pending: list[PendingResult] = []
        call = object()
        try:
            pending.extend(self.submit(request, call=call) for request in requests)
            return [result.result() for result in pending]
        finally:
            for result in pending:
                result.cancel()

    def close(self, *, cancel: bool = False) -> None:
        """Accept no more requests, and wait until those submitted are completed, or cancelled."""
        with self._changed:
            self._closed = True
            for result in self._results.values() if cancel else ():
                result.cancel()
            self._changed.notify_all()
        self._thread.join()
        atexit.unregister(self._close_at_exit)

    def _close_at_exit(self) -> None:
        """End the thread before the interpreter, which may abort while a thread is inside a backend."""
        if self._thread.is_alive():  # a forked process has no such thread, and its lock may be held
            self.close(cancel=True)

    def _run(self) -> None:
        try:
            with self._backend.inference_mode():
                while self._has_work():
                    self._admit()
                    if len(self._scheduler):
                        with self._backend_lock:
                            completed = self._scheduler.step()
                        self._deliver(completed)
        except BaseException as error:
            self._fail(error)
            raise

    def _admit(self) -> None:
        """Start the waiting requests that fit, while others may submit."""
        with self._changed:
            self._drop_cancelled()
            taken = self._scheduler.take(self._waiting)
        if taken:
            with self._backend_lock:
                failed = self._scheduler.start(taken)
            self._deliver(failed)

    def _on_done(self, request: Request, result: PendingResult) -> None:
        """Note a request that its caller cancelled, to drop it before the next step."""
        if result.cancelled():
            with self._changed:
                self._withdrawn.add(request)

    def _has_work(self) -> bool:
        """Wait for requests; return False when the engine is closed and idle."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or len(self._scheduler))
            return len(self._waiting) + len(self._scheduler) > 0

    def _drop_cancelled(self) -> None:
        gone = self._withdrawn & self._results.keys()
        self._withdrawn.clear()
        if gone:
            self._scheduler.cancel(gone)
            self._waiting.remove(gone)
            for request in gone:
                _set_result(self._results.pop(request), [], None)

    def _deliver(self, completed: Sequence[RequestResult]) -> None:
        with self._changed:
            for one in completed:
                _set_result(self._results.pop(one.request), one.hypotheses, one.error)

    def _fail(self, error: BaseException) -> None:
        """Pass an internal error to all callers, so that none waits for ever."""
        with self._changed:
            self._closed = True
            for result in self._results.values():
                if result.cancelled() or not result.done():
                    _set_result(result, [], error)
            self._changed.notify_all()


def _set_result(result: PendingResult, hypotheses: list[Hypothesis], error: BaseException | None) -> None:
    """Complete a future once, and notify the waiters of a cancelled one."""
    if not result.set_running_or_notify_cancel():
        return
    if error is None:
        result.set_result(hypotheses)
    else:
        result.set_exception(error)


@final
class RequestRunner:
    """Decodes the requests of a translator or generator, for threads and coroutines, which take turns."""

    def __init__(self, backend: AnyBackend, *, batch_tokens: int) -> None:
        self.backend = backend
        self._process, self._lock = OwnerProcess(), FairLock()
        self._batch_tokens = batch_tokens
        self._engine: Engine | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Use the backend for one step or batch."""
        self._process.check()
        with self._lock, self.backend.inference_mode():
            yield

    def run(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request of one configuration."""
        return run_requests(self.backend, requests, batch_tokens=self._batch_tokens, turn=self.turn)

    def stream(self, jobs: Iterable[Sequence[Request]], *, ahead: int) -> Iterator[list[list[Hypothesis]]]:
        """Yield the hypotheses of each job, as `run_in_order` does."""
        scheduler = Scheduler(self.backend, max_tokens=self._batch_tokens)
        return run_in_order(scheduler, jobs, ahead=ahead, turn=self.turn)

    def steps(self, request: Request) -> Iterator[None]:
        """Decode one request, and yield after each step; its tokens go to its observer."""
        scheduler = Scheduler(self.backend, max_tokens=self._batch_tokens)
        with self.turn():
            completed = scheduler.admit(deque([request]))
        while not completed:
            with self.turn():
                completed = scheduler.step()
            yield
        completed[0].get()

    async def run_async(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, decoded in one running batch with all other calls of this method.

        The engine, started by the first call, takes turns with the other methods. When the coroutine is cancelled, or
        a request fails, the engine drops the others before its next step.
        """
        self._process.check()
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self.backend, max_tokens=self._batch_tokens, lock=self._lock)
        pending: list[PendingResult] = []
        call = object()
        try:
            pending.extend(self._engine.submit(request, call=call) for request in requests)
            return await asyncio.gather(*map(asyncio.wrap_future, pending))
        finally:
            for result in pending:
                result.cancel()
