"""Worker: runs functions for the server, one after the other, until the server ends."""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO

from dragoman.serving.http.errors import RequestError, as_request_error
from dragoman.serving.json_log import configure_logging, describe_error
from dragoman.serving.workers.calls import Outcome, Ready, ServerConnection, Work, connect

NICENESS = 5
"""Priority below that of the server, which answers other requests meanwhile."""
_PR_SET_PDEATHSIG = 1
"""Number of the operation in Linux's `prctl.h`."""
_TOO_LARGE = RequestError(413, "The text or file takes too much memory. Send less at once.")


def main() -> None:
    """Answer the messages of the server."""
    server = _open_connection()
    _end_with_server()
    configure_logging()
    import dragoman.serving.translation.worker_functions  # noqa: F401  # now, and not when a request waits

    if hasattr(os, "nice"):
        os.nice(NICENESS)
    server.send(Ready())
    while True:
        try:
            work: Work = server.receive()
        except EOFError:
            return
        server.send(_run(work))


def _open_connection() -> ServerConnection:
    """Return the connection over standard input and output, to which nothing else is written."""
    incoming: BinaryIO = os.fdopen(os.dup(0), "rb")
    outgoing: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    connection = ServerConnection(incoming, outgoing)
    connect(connection)
    return connection


def _end_with_server() -> None:
    """Leave signals of the terminal to the server, and end when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


def _run(work: Work) -> Outcome:
    """Run a function, and return its result or error."""
    error, trace, value = None, "", None
    try:
        _limit_memory(work.memory)
        value = work.function(*work.arguments)
    except MemoryError:
        error = _TOO_LARGE
    except Exception as problem:
        error = as_request_error(problem)
        trace = describe_error(problem) if error.status == 500 else ""
    return Outcome(value, error, trace, _peak_memory())


def _limit_memory(allowed: int | None) -> None:
    """Make allocations fail that would take more than some bytes above the present memory; on Linux only."""
    if sys.platform != "linux":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (hard if allowed is None else used + allowed, hard))


def _peak_memory() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
