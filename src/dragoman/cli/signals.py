"""Ctrl-C and SIGTERM as a flag that a training polls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

NOTICE = b"\nstopping at the next safe point; press Ctrl-C again to stop at once\n"


@contextmanager
def on_signals(notice: bytes = NOTICE) -> Iterator[Callable[[], bool]]:
    """Yield a function that is true after the first signal; a second Ctrl-C raises KeyboardInterrupt."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not received:
            with suppress(OSError):  # standard error may be closed; `print` could wait for a lock of this thread
                os.write(2, notice)
        received.append(number)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
