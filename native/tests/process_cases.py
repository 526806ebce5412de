"""Cases that a process may not survive: `python -m native.tests.process_cases CASE COUNT`.

See `tests.forked_processes` for the meaning of the exit code.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import KINDS, VOCABULARY, cpu
from tests.forked_processes import HANG_SECONDS, run_in_forks


def start_daemon(work: Callable[[], Any]) -> None:
    """Repeat work in a daemon thread; return when the first call is running."""
    running = threading.Event()

    def repeat() -> None:
        running.set()
        while True:
            work()

    threading.Thread(target=repeat, daemon=True).start()
    running.wait()
    time.sleep(0.01)


def exit_while_a_thread_is_inside(number: int) -> None:
    """End the process while a daemon thread computes."""
    if number % 4 == 3:
        use_two_openmp_threads()
        start_daemon(lambda: accumulate(cpu.CpuOps()))
    else:
        model = models.model(KINDS[number % 2], num_threads=1 + number % 3)
        ids, lengths = models.sources(16 + number)
        start_daemon(lambda: model.encode(ids, lengths))


def fork_while_a_thread_is_inside(number: int) -> None:
    """Use a model in a process that was forked while another thread computed with it."""
    inside = Inside(number)
    child = os.fork()
    if child == 0:
        signal.alarm(HANG_SECONDS)
        inside.assert_refused()
        models.model(num_threads=2).encode(*models.sources(3))
        for ops in (inside.ops, cpu.CpuOps()):
            accumulate(ops)
        sys.exit()
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the child ended with {status}"


class Inside:
    """Values that a daemon thread works with."""

    def __init__(self, number: int) -> None:
        self.model = models.model(KINDS[number % 2], num_threads=1 + number % 2)
        self.sources = models.sources(40)
        self.memory = self.model.encode(*self.sources)
        self.state = self.model.start(self.memory, 2)
        self.tokens = models.tokens(40, 2)
        self.ops = cpu.CpuOps()
        use_two_openmp_threads()
        start_daemon(self.work)

    def work(self) -> None:
        self.model.top_k(self.tokens, self.memory, self.state.reorder(np.ones((40, 2), int)), 3)
        accumulate(self.ops)

    def assert_refused(self) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: self.model.encode(*self.sources),
            lambda: self.model.start(self.memory, 2),
            lambda: self.model.step(self.tokens, self.memory, self.state),
            lambda: self.model.top_k(self.tokens, self.memory, self.state, 3),
            lambda: self.state.reorder(np.zeros((40, 2), int)),
            lambda: self.state.select([0]),
            lambda: self.state.concat(self.state),
            lambda: self.model.cached_tokens,
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="forked"):
                call()


def use_two_openmp_threads() -> None:
    """Load the OpenMP runtime as PyTorch does, if this system has it."""
    with suppress(OSError):
        ctypes.CDLL("libgomp.so.1", ctypes.RTLD_GLOBAL).omp_set_num_threads(2)


def accumulate(ops: Any) -> None:
    """Compute a training operation that is large enough for several threads."""
    logits, sums = np.zeros((400, 2_000), np.float32), np.zeros((400, 2_000), np.float32)
    ops.accumulate_softmax(logits, 1.0, sums)


def change_arrays_during_calls(number: int) -> None:
    """Change the arrays of a call in another thread: ids that are checked must be those that are used."""
    arrays = Changing(models.model(KINDS[number % 2], num_threads=2))
    threading.Thread(target=arrays.change, daemon=True).start()
    deadline = time.monotonic() + 0.1
    while time.monotonic() < deadline:
        for call in arrays.calls:
            with suppress(IndexError, ValueError):
                call()


class Changing:
    """Calls, and their arrays, which alternate between valid and invalid values."""

    def __init__(self, model: Any) -> None:
        self.ids, self.lengths = np.ones((64, 64), np.int32), np.full(64, 64)
        self.tokens, self.parents = np.ones((64, 4), np.int32), np.ones((64, 4), np.int32)
        self.shortlist, self.targets = np.arange(9, dtype=np.int32), np.ones(4_000, np.int64)
        memory = model.encode(self.ids.copy(), self.lengths)
        state, ops = model.start(memory, 4), cpu.CpuOps()
        logits = np.zeros((4_000, 50), np.float32)
        self.calls: list[Callable[[], Any]] = [
            lambda: model.encode(self.ids, self.lengths),
            lambda: model.encode(self.ids, self.lengths, shortlists=[self.shortlist] * 64),
            lambda: model.step(self.tokens, memory, state),
            lambda: model.top_k(self.tokens, memory, state.reorder(self.parents), 3),
            lambda: ops.cross_entropy(logits, self.targets, 1.0),
        ]
        self.arrays = [self.ids, self.tokens, self.parents, self.shortlist, self.targets]
        self.valid = [array.copy() for array in self.arrays]

    def change(self) -> None:
        while True:
            for array in self.arrays:
                array.fill(2**31 - 1)
            time.sleep(0)
            for array, valid in zip(self.arrays, self.valid, strict=True):
                np.copyto(array, valid)
            time.sleep(0)


def interrupt_long_calls(number: int) -> None:
    """Interrupt a call that takes many seconds, and use the model afterwards.

    The call ends within two seconds of processor time, which other processes do not lengthen.
    """
    # A shell that starts the tests in the background ignores Ctrl-C, and child processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    name = [*LONG_CALLS][number % len(LONG_CALLS)]
    model, call = LONG_CALLS[name]()
    sent: list[float] = []

    def send() -> None:
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.05, send).start()
    try:
        call()
    except KeyboardInterrupt:
        seconds = time.process_time() - sent[0]
        assert seconds < 2, f"{name} ended {seconds:.1f} seconds of processor time after the signal"
    else:
        raise AssertionError(f"{name} was not interrupted")
    before = model.cached_tokens
    memory = model.encode(*models.sources(3))
    model.step(models.tokens(3, 2), memory, model.start(memory, 2))
    del memory
    assert model.cached_tokens == before


def long_encode(kind: str, num_threads: int, rows: int, columns: int) -> tuple[Any, Callable[[], Any]]:
    model = models.model(kind, num_threads=num_threads)
    ids, lengths = np.ones((rows, columns), np.int32), np.full(rows, columns)
    return model, lambda: model.encode(ids, lengths)


def long_step(num_threads: int, k: int | None) -> tuple[Any, Callable[[], Any]]:
    model = models.model(num_threads=num_threads)
    memory = model.encode(*models.sources(1)).select(np.zeros(2_000, int))
    tokens, state = models.tokens(2_000, 60), model.start(memory, 60)
    if k is None:
        return model, lambda: model.step(tokens, memory, state)
    return model, lambda: model.top_k(tokens, memory, state, k)


def long_shortlists(num_threads: int) -> tuple[Any, Callable[[], Any]]:
    model = models.model(num_threads=num_threads)
    ids, shortlist = np.ones((6_000, 1), np.int32), np.arange(VOCABULARY, dtype=np.int32)
    return model, lambda: model.encode(ids, np.ones(6_000, int), shortlists=[shortlist] * 6_000)


def wait_for_another_thread() -> tuple[Any, Callable[[], Any]]:
    busy = models.model()
    start_daemon(lambda: busy.encode(np.ones((400, 1_000), np.int32), np.full(400, 1_000)))
    return models.model(), lambda: busy.encode(*models.sources(1))


LONG_CALLS: dict[str, Callable[[], tuple[Any, Callable[[], Any]]]] = {
    "encode with one thread": partial(long_encode, "encoder_decoder", 1, 400, 1_000),
    "encode with two threads": partial(long_encode, "encoder_decoder", 2, 400, 1_000),
    "encode one long source with one thread": partial(long_encode, "encoder_decoder", 1, 1, 20_000),
    "encode one long source with two threads": partial(long_encode, "encoder_decoder", 2, 1, 20_000),
    "prefill with one thread": partial(long_encode, "decoder_only", 1, 200, 1_000),
    "prefill with two threads": partial(long_encode, "decoder_only", 2, 200, 1_000),
    "step with one thread": partial(long_step, 1, None),
    "step with two threads": partial(long_step, 2, None),
    "top_k with one thread": partial(long_step, 1, 10),
    "top_k with two threads": partial(long_step, 2, 10),
    "shortlists": partial(long_shortlists, 1),
    "wait for another thread": wait_for_another_thread,
}

CASES: dict[str, Callable[[int], None]] = {
    case.__name__: case
    for case in (
        exit_while_a_thread_is_inside,
        fork_while_a_thread_is_inside,
        change_arrays_during_calls,
        interrupt_long_calls,
    )
}


if __name__ == "__main__":
    run_in_forks(CASES[sys.argv[1]], int(sys.argv[2]))
