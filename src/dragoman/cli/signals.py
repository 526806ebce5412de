"""Signals that end a command, after its cleanup or at the next safe point."""

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from dragoman.errors import StoppedError

SIGNALED: Final = 128
"""Plus the number of a signal: the code that a shell reports for a process that the signal ended."""
ENDING_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a command: another process asks for it, or the terminal is closed."""
NOTICE = b"\nstopping at the next safe point; press Ctrl-C again to stop at once\n"


def exit_on_signals() -> None:
    """End the process after a signal with the cleanup of an exception; signals that the caller ignores stay ignored."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    """End the process; later signals do not interrupt its cleanup."""
    for other in ENDING_SIGNALS:
        signal.signal(other, lambda *_: None)  # Python reports a signal that came before SIG_IGN
    _leave_terminal(number)
    sys.exit(SIGNALED + number)


def _leave_terminal(number: int) -> None:
    """After SIGHUP, send the output for the terminal nowhere: the terminal is closed, and writing to it would fail."""
    if number in (signal.SIGINT, signal.SIGTERM):
        return
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


@contextmanager
def on_signals(notice: bytes = NOTICE) -> Iterator[Callable[[], bool]]:
    """Yield a function that is true after the first signal; a second Ctrl-C raises KeyboardInterrupt."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        _leave_terminal(number)
        if not received:
            with suppress(OSError):  # standard error may be closed; `print` could wait for a lock of this thread
                os.write(2, notice)
        received.append(number)

    numbers = [one for one in ENDING_SIGNALS if signal.getsignal(one) != signal.SIG_IGN]  # as nohup does
    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, *numbers)}
    try:
        yield lambda: bool(received)
    except StoppedError as error:
        error.signal_number = (received or [signal.SIGINT])[0]
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
