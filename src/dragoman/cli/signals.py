"""Ctrl-C and SIGTERM as a flag that long work polls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

NOTICE = b"\nstopping at the next safe place; Ctrl-C once more leaves at once\n"


@contextmanager
def on_signals(notice: bytes = NOTICE) -> Iterator[Callable[[], bool]]:
    """Yield a function that is true after the first signal; a second Ctrl-C raises KeyboardInterrupt."""
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not received:
            with suppress(OSError):  # standard error may be closed; a print could wait for a lock that we hold
                os.write(2, notice)
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
