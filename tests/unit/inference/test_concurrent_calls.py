"""Concurrent calls: turns of a lock and of a queue, and threads that stop when their coroutine is cancelled."""

import asyncio
import threading
import time

import pytest

from dragoman.errors import TextWarning, one_warning_per_problem, warn
from dragoman.inference.concurrent_calls import FairLock, FairQueue, run_in_thread
from dragoman.inference.length_batches import run_in_batches


def test_lock_is_passed_to_the_first_waiting_thread():
    lock, order = FairLock(), []

    def work(name: str) -> None:
        for _ in range(5):
            with lock:
                order.append(name)
                time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    with lock:
        for thread in threads:
            thread.start()
        while len(lock._turns) < 2:  # both wait
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert "aaa" not in "".join(order)
    assert "bbb" not in "".join(order)


def test_interrupted_thread_does_not_keep_the_lock(monkeypatch):
    lock = FairLock()
    real = threading.Lock

    class Interrupted:
        def __init__(self) -> None:
            self.inner, self.calls = real(), 0

        def acquire(self) -> None:
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt
            self.inner.acquire()

        def release(self) -> None:
            self.inner.release()

    with lock:
        monkeypatch.setattr(threading, "Lock", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock.__enter__()
        monkeypatch.undo()
    with lock:
        pass


def test_queue_serves_calls_by_turns():
    queue: FairQueue[str] = FairQueue()
    for number in range(5):
        queue.append(f"a{number}", size=2, call="a")
    taken = [queue.popleft(), queue.popleft()]
    for number in range(3):
        queue.append(f"b{number}", size=2, call="b")
    queue.remove({"a3"})
    taken += [queue.popleft() for _ in range(len(queue))]
    assert taken == ["a0", "a1", "b0", "a2", "b1", "b2", "a4"]


def test_cancelled_thread_stops_before_the_next_batch():
    batches: list[list[int]] = []

    def run(batch: list[int]) -> list[int]:
        batches.append(batch)
        time.sleep(0.05)
        return batch

    async def call() -> None:
        work = run_in_thread(run_in_batches, range(100), [1] * 100, run, batch_tokens=1)
        await asyncio.wait_for(work, timeout=0.02)

    started = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(call())
    assert len(batches) < 20
    assert time.monotonic() - started < 4


@one_warning_per_problem()
def read(texts: list[str]) -> int:
    """Warn about the texts that are long."""
    for number, text in enumerate(texts, start=1):
        if len(text) > 3:
            warn(TextWarning("line", number, f"{len(text)} letters", problem="lines are long", remedy="cut them"))
    return len(texts)


def test_call_gives_one_warning_for_each_problem():
    with pytest.warns(TextWarning) as found:
        read(["a", *["long text"] * 7])
    assert [str(one.message) for one in found] == [
        "7 lines are long (texts[1], texts[2], texts[3], texts[4], texts[5], …); cut them"
    ]
    assert len(found[0].message.parts) == 7
    with pytest.warns(TextWarning, match=r"^texts\[1\]: 9 letters; cut them$"):
        read(["a", "long text"])


def test_warnings_of_a_thread_are_issued_at_the_call():
    async def call() -> list[str]:
        with pytest.warns(TextWarning) as found:
            assert await run_in_thread(read, ["text"] * 2) == 2
        return [f"{one.filename}: {one.message}" for one in found]

    async def both() -> list[int]:
        return await asyncio.gather(run_in_thread(read, ["text"]), run_in_thread(read, ["a", "text"]))

    assert asyncio.run(call()) == [f"{__file__}: 2 lines are long (texts[0], texts[1]); cut them"]
    with pytest.warns(TextWarning) as found:
        asyncio.run(both())
    assert sorted(f"{one.filename}: {one.message}" for one in found) == [
        f"{__file__}: texts[0]: 4 letters; cut them",
        f"{__file__}: texts[1]: 4 letters; cut them",
    ]
