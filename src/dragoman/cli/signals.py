"""Ctrl-C and SIGTERM as a question that a long work asks itself, instead of an exception in its middle."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_signals() -> Iterator[Callable[[], bool]]:
    """Inside, the first signal only makes the yielded function true; a second Ctrl-C interrupts at once."""
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
