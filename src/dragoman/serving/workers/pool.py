"""Pool of workers, which take turns for clients, and are killed at a deadline or when nobody waits for their result."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, Self, TypeVar, final

from dragoman.errors import DragomanError
from dragoman.inference.concurrent_calls import FairQueue
from dragoman.serving.http.errors import RequestError, overloaded
from dragoman.serving.workers.calls import HEADER, Call, Outcome, Reply, Work, load, pack

KEPT_MEMORY = 512 * 1024**2
"""Bytes of a worker's peak above which it is replaced after its work, so that the system gets the memory back."""
START_TIMEOUT = 120.0
"""Seconds in which a worker has to start."""
Calls = Mapping[str, Callable[..., Awaitable[Any]]]
"""Functions of the server that work may call, by their names."""
_PIPE_LIMIT = 1024**2
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class WorkTimeoutError(RequestError):
    """Work that was ended at its deadline."""


@final
class WorkerPool:
    """At most `size` workers. One waits ready; others start when they are needed."""

    def __init__(self, size: int, *, time_limit: float, on_timeout: Callable[[], None] = lambda: None) -> None:
        """`time_limit` are the seconds in which work may compute; calls of the server are not counted."""
        self._size = size
        self._time_limit = time_limit
        self._on_timeout = on_timeout
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._taken = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._preparing: asyncio.Task[None] | None = None

    async def run(
        self,
        function: Callable[..., _T],
        /,
        *arguments: Any,
        calls: Calls = MappingProxyType({}),
        client: str = "",
        memory: int | None = None,
    ) -> _T:
        """Return what a function of a module returns in a worker; arguments and result are pickled.

        `calls` are coroutine functions that the function may call by `call_server`. Clients take turns. `memory` are
        the bytes that the function may take. Raises the error of the function as a RequestError, and a RequestError
        with status 503 at the deadline. When the coroutine is cancelled, the worker is killed.
        """
        async with self._turn(client), self._worker() as worker:
            outcome = await worker.run(Work(function, arguments, memory), calls, self._time_limit)
        if outcome.traceback:
            _logger.error("internal error in a worker", extra={"fields": {"error": outcome.traceback}})
        if outcome.error is not None:
            raise outcome.error
        value: _T = outcome.value
        return value

    def prepare(self) -> None:
        """Start a worker that waits for work, unless there is one."""
        if not self._idle and self._preparing is None:
            self._preparing = asyncio.create_task(self._prepare())

    async def close(self) -> None:
        """Kill all workers."""
        if self._preparing is not None:
            self._preparing.cancel()
            with suppress(asyncio.CancelledError):
                await self._preparing
        workers = [*self._idle, *self._busy]
        self._idle.clear()
        for worker in workers:
            await worker.kill()

    async def _prepare(self) -> None:
        try:
            worker = await _Worker.start()
            self._idle.append(worker)
        except (OSError, RequestError) as error:
            _logger.error("a worker cannot be started: %s", error)
        finally:
            self._preparing = None

    @asynccontextmanager
    async def _turn(self, client: str) -> AsyncIterator[None]:
        """Wait until a worker is free; clients take turns."""
        if self._taken < self._size:
            self._taken += 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn, size=1, call=client)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                else:
                    self._waiting.remove([turn])
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting = FairQueue()  # which forgets the clients
        self._taken -= 1

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator["_Worker"]:
        """Take an idle worker or start one. It is killed where its work has no outcome."""
        if not self._idle and self._preparing is not None:
            await asyncio.shield(self._preparing)
        self._idle = [worker for worker in self._idle if worker.is_running]
        worker = self._idle.pop() if self._idle else await _Worker.start()
        self._busy.add(worker)
        is_kept = False
        try:
            yield worker
            is_kept = worker.peak_memory < KEPT_MEMORY
        except WorkTimeoutError:
            self._on_timeout()
            raise
        finally:
            self._busy.discard(worker)
            if is_kept:
                self._idle.append(worker)
            else:
                await worker.kill()
                self.prepare()


@final
class _Worker:
    """A worker process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._writer, self._reader = process, process.stdin, process.stdout
        self.peak_memory = 0

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    @classmethod
    async def start(cls) -> Self:
        """Start a worker, and wait until it is ready. Raises RequestError if it is not."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __package__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            limit=_PIPE_LIMIT,
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await worker._receive()
        except BaseException as error:
            await worker.kill()
            if isinstance(error, TimeoutError):
                raise overloaded() from error
            raise
        return worker

    async def run(self, work: Work, calls: Calls, time_limit: float) -> Outcome:
        """Return the outcome of work. Raises RequestError at the deadline, or if the worker ends."""
        clock = asyncio.get_running_loop().time
        await self._send(work)
        while True:
            begin = clock()
            try:
                async with asyncio.timeout(max(time_limit, 0)):
                    message = await self._receive()
            except TimeoutError:
                raise WorkTimeoutError(
                    503, "The analysis of the text or file takes too long. Send less at once.", retry_after=1
                ) from None
            time_limit -= clock() - begin
            if isinstance(message, Outcome):
                self.peak_memory = message.peak_memory
                return message
            await self._send(await _answer(calls, message))

    async def kill(self) -> None:
        """End the process, and wait for its end."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._writer.close()
        await asyncio.shield(self._process.wait())

    async def _send(self, message: object) -> None:
        with suppress(ConnectionError):  # the end of the process is noticed by the next `_receive`
            self._writer.write(pack(message))
            await self._writer.drain()

    async def _receive(self) -> Any:
        try:
            [size] = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            return load(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError:
            code = await self._process.wait()
            _logger.error("a worker has ended with exit code %s", code)
            raise RequestError(500, "Internal error.") from None


async def _answer(calls: Calls, call: Call) -> Reply:
    """Return what a function of the server returns, or its error; internal errors end the work."""
    try:
        return Reply(await calls[call.name](*call.arguments))
    except (DragomanError, RequestError) as error:
        return Reply(None, error)
