"""Concurrent calls: turns of a lock and of a queue, and threads that stop when their coroutine is cancelled."""

import asyncio
import threading
import time

import pytest

from dragoman.errors import TextWarning, one_warning_per_problem, warn
from dragoman.inference.concurrent_calls import TIME_SLICE, FairLock, FairQueue, hand_over, run_in_thread
from dragoman.inference.length_batches import run_in_batches
from dragoman.runs.load import load, load_torch_model
from tests.untrained_runs import finished_run


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


def test_turn_is_handed_over_within_a_long_batch():
    lock, order = FairLock(), []

    def wait() -> None:
        with lock.turn():
            order.append("other")

    other = threading.Thread(target=wait)
    with lock.turn():
        hand_over()  # nobody waits
        other.start()
        while not lock._turns:
            time.sleep(0.001)
        hand_over()
        order.append("before the end of the time slice")
        time.sleep(TIME_SLICE)
        hand_over()
        order.append("after it")
        assert lock._held
    other.join()
    assert order == ["before the end of the time slice", "other", "after it"]
    assert not lock._held
    hand_over()  # without a turn


def test_interrupted_hand_over_returns_with_the_lock(monkeypatch):
    """Otherwise the block that holds the lock would release it for another thread."""
    lock, entered = FairLock(), threading.Event()

    def wait() -> None:
        with lock:
            entered.set()

    other = threading.Thread(target=wait)
    enter, calls = FairLock.__enter__, []

    def interrupted(self: FairLock) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt
        enter(self)

    with lock:
        other.start()
        while not lock._turns:
            time.sleep(0.001)
        monkeypatch.setattr(FairLock, "__enter__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock.hand_over()
        assert entered.is_set()
        assert lock._held
    other.join()
    assert not lock._held


@pytest.mark.parametrize("torch_backend", [False, True], ids=["cpu", "torch"])
def test_small_call_does_not_wait_for_a_large_batch_of_scores(tmp_path, monkeypatch, torch_backend):
    """The large call scores one batch, whose parts last longer than a time slice each."""
    run, parts = finished_run(tmp_path / "run").path, []
    translator = (load_torch_model if torch_backend else load)(run, device="cpu", batch_tokens=10_000)
    first_part = threading.Event()
    part = "_score_rows" if torch_backend else "step"
    compute = getattr(type(translator.backend), part)

    def slow(self, *args, **options):
        if threading.current_thread() is large:
            parts.append(None)
            first_part.set()
            time.sleep(1.2 * TIME_SLICE)
        return compute(self, *args, **options)

    monkeypatch.setattr(type(translator.backend), part, slow)
    texts = ["two dogs play by the sea ."] * 640
    large = threading.Thread(target=translator.score, args=(texts, texts))
    large.start()
    first_part.wait()
    translator.score(["two dogs"], ["zwei Hunde"])
    parts_before = len(parts)
    large.join()
    assert parts_before <= 3 < len(parts)
