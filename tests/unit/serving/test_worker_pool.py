"""Workers: results, errors, calls of the server, deadline, cancellation, and memory."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.serving.http.errors import RequestError
from dragoman.serving.workers.calls import call_server
from dragoman.serving.workers.pool import WorkerPool, WorkTimeoutError


def add(first: int, second: int) -> int:
    return first + second


def fail(message: str) -> None:
    raise RequestError(409, message, "parameter", retry_after=3)


def crash() -> None:
    raise AssertionError(f"text {60 + 6} of a client")


def leave() -> None:
    os._exit(7)


def compute_for_ever() -> None:
    while True:
        pass


def note_and_compute(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    compute_for_ever()


def take_memory(size: int) -> int:
    return len(bytearray(size))


def ask(value: int) -> int:
    return call_server("double", call_server("double", value))


async def double(value: int) -> int:
    if value > 1000:
        raise RequestError(400, "too much")
    return 2 * value


@asynccontextmanager
async def pool(size: int = 1, *, time_limit: float = 60) -> AsyncIterator[WorkerPool]:
    made = WorkerPool(size, time_limit=time_limit)
    try:
        yield made
    finally:
        await made.close()


def is_running(number: int) -> bool:
    return Path(f"/proc/{number}").exists() and ") Z " not in Path(f"/proc/{number}/stat").read_text()


def test_results_errors_and_calls():
    async def run() -> None:
        async with pool() as workers:
            assert await workers.run(add, 2, 3) == 5
            with pytest.raises(RequestError) as caught:
                await workers.run(fail, "text")
            assert (caught.value.status, caught.value.parameter, caught.value.retry_after) == (409, "parameter", 3)
            assert await workers.run(ask, 3, calls={"double": double}) == 12
            with pytest.raises(RequestError, match="too much"):
                await workers.run(ask, 700, calls={"double": double})
            assert await workers.run(add, 1, 1) == 2

    asyncio.run(run())


@pytest.mark.parametrize("function", [crash, leave])
def test_internal_errors_are_logged_and_not_shown(function, caplog):
    async def run() -> None:
        async with pool() as workers:
            with pytest.raises(RequestError, match=r"^Internal error\.$"):
                await workers.run(function)
            assert await workers.run(add, 1, 1) == 2

    asyncio.run(run())
    records = [one for one in caplog.records if one.name.startswith("dragoman")]
    assert [one.levelname for one in records] == ["ERROR"]
    assert "text 66" not in str(vars(records[0]))


def test_deadline_ends_work_and_worker():
    async def run() -> None:
        async with pool(time_limit=4) as workers:
            await workers.run(add, 1, 1)
            begin = time.monotonic()
            with pytest.raises(WorkTimeoutError):
                await workers.run(compute_for_ever)
            assert time.monotonic() - begin < 30
            assert await workers.run(add, 1, 1) == 2

    asyncio.run(run())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_cancellation_kills_the_worker(tmp_path):
    async def run() -> None:
        async with pool() as workers:
            task = asyncio.create_task(workers.run(note_and_compute, str(tmp_path / "number")))
            while not (tmp_path / "number").exists() or not (tmp_path / "number").read_text():
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            assert not is_running(int((tmp_path / "number").read_text()))

    asyncio.run(run())


def test_clients_take_turns():
    """A client that comes later than two pieces of work of another one is served after the first of them."""

    async def run() -> list[str]:
        order: list[str] = []

        async def work(client: str) -> None:
            await workers.run(add, 1, 1, client=client)
            order.append(client)

        async with pool() as workers:
            tasks = [asyncio.create_task(work(client)) for client in ("first", "many", "many", "many", "few")]
            await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()).index("few") < 3


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is bounded on Linux")
def test_memory_is_bounded():
    async def run() -> None:
        async with pool() as workers:
            assert await workers.run(take_memory, 30_000_000, memory=100_000_000) == 30_000_000
            with pytest.raises(RequestError) as caught:
                await workers.run(take_memory, 200_000_000, memory=100_000_000)
            assert caught.value.status == 413
            assert await workers.run(take_memory, 200_000_000) == 200_000_000

    asyncio.run(run())
