"""Concurrent calls of one model give the results of single calls. The thread sanitizer runs these tests too."""

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import KINDS

CALLERS, ROUNDS = 3, 6
IDS, LENGTHS = models.sources(24)
TOKENS = models.tokens(24, 2)


def decode(model: Any, rows: slice) -> list[np.ndarray]:
    """Return the results of all kinds of calls for some sentences."""
    memory = model.encode(IDS[rows], LENGTHS[rows])
    state = model.start(memory, 2)
    logits, state = model.step(TOKENS[rows], memory, state)
    state = state.reorder(np.tile([1, 0], (len(logits), 1)))
    log_probs, ids, state = model.top_k(TOKENS[rows], memory, state, 3)
    first, last = memory.select([0]), memory.select([-1 + len(logits)])
    joined = state.select([0]).concat(state.select([len(logits) - 1]))
    ends, _ = model.step(TOKENS[rows][[0, -1]], first.concat(last), joined)
    return [logits, log_probs, ids, ends]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_concurrent_calls_equal_single_calls(kind: str, num_threads: int) -> None:
    model = models.model(kind, num_threads=num_threads)
    parts = [slice(0, 3), slice(3, 5), slice(0, 24)]
    expected = [decode(model, rows) for rows in parts]
    with ThreadPoolExecutor(CALLERS) as callers:
        for number, found in enumerate(callers.map(lambda rows: decode(model, rows), parts * ROUNDS)):
            for one, other in zip(found, expected[number % len(parts)], strict=True):
                np.testing.assert_array_equal(one, other)
    assert model.cached_tokens == 0


def test_models_loaded_and_destroyed_concurrently_equal_others() -> None:
    def load(number: int) -> list[np.ndarray]:
        return decode(models.model(KINDS[number % 2], num_threads=2), slice(0, 3))

    expected = [load(0), load(1)]
    with ThreadPoolExecutor(CALLERS) as callers:
        for number, found in enumerate(callers.map(load, range(ROUNDS))):
            for one, other in zip(found, expected[number % 2], strict=True):
                np.testing.assert_array_equal(one, other)


class AlarmError(Exception):
    """Exception of a signal handler."""


def on_alarm(*_: object) -> None:
    raise AlarmError


@pytest.mark.parametrize("num_threads", [1, 2])
def test_interrupted_call_leaves_concurrent_calls_alone(num_threads: int) -> None:
    model = models.model(num_threads=num_threads)
    rows = slice(0, 3)
    expected = decode(model, rows)
    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        with ThreadPoolExecutor(1) as other:
            found = [other.submit(decode, model, rows) for _ in range(ROUNDS)]
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(AlarmError):
                model.encode(np.ones((200, 1_000), np.int32), np.full(200, 1_000))
            for result in found:
                for one, same in zip(result.result(), expected, strict=True):
                    np.testing.assert_array_equal(one, same)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert model.cached_tokens == 0


def test_signal_handler_cannot_call_the_busy_model() -> None:
    """The call in the handler would wait for the call that it interrupted."""
    model = models.model()

    def call_model(*_: object) -> None:
        model.encode(IDS, LENGTHS)

    before = signal.signal(signal.SIGALRM, call_model)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(RuntimeError, match="signal handler"):
            model.encode(np.ones((200, 1_000), np.int32), np.full(200, 1_000))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    decode(model, slice(0, 3))
