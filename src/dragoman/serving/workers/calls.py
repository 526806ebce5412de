"""Messages between the server and a worker: pickles with their lengths, through two pipes.

The server sends a function with its arguments. The worker calls functions of the server, which replies, and then sends
its result or error.
"""

import pickle
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, final

from dragoman.serving.http.errors import RequestError

HEADER = struct.Struct(">Q")
"""Number of bytes that follow."""


class Work(NamedTuple):
    """Function of a module, its arguments, and the bytes of memory that it may take; None: any number."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    memory: int | None


class Call(NamedTuple):
    """Call of a function of the server."""

    name: str
    arguments: tuple[Any, ...]


class Reply(NamedTuple):
    """What the called function returned, or its error."""

    value: Any
    error: Exception | None = None


class Ready(NamedTuple):
    """The worker has started."""


class Outcome(NamedTuple):
    """Result of the function, or its error as a client may know it."""

    value: Any
    error: RequestError | None
    traceback: str
    """Traceback of an internal error, for the log."""
    peak_memory: int
    """Greatest memory of the worker so far, in bytes."""


def dump(value: object) -> bytes:
    """Return a value as bytes."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def load(data: bytes) -> Any:
    """Return the value of bytes, which the server or one of its workers has made: nobody else can write to them."""
    return pickle.loads(data)  # noqa: S301


def pack(message: object) -> bytes:
    """Return a message as bytes, after their number."""
    data = dump(message)
    return HEADER.pack(len(data)) + data


@final
@dataclass
class ServerConnection:
    """The server, as a worker sees it. Threads take turns."""

    incoming: BinaryIO
    outgoing: BinaryIO

    def __post_init__(self) -> None:
        self._turn = threading.Lock()

    def send(self, message: object) -> None:
        """Send a message."""
        self.outgoing.write(pack(message))
        self.outgoing.flush()

    def receive(self) -> Any:
        """Return the next message. Raises EOFError when the server has ended."""
        header = self.incoming.read(HEADER.size)
        if len(header) < HEADER.size:
            raise EOFError
        return load(self.incoming.read(HEADER.unpack(header)[0]))

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function in the server, and return what it returns or raise its error."""
        with self._turn:
            self.send(Call(name, arguments))
            reply: Reply = self.receive()
        if reply.error is not None:
            raise reply.error
        return reply.value


_connections: list[ServerConnection] = []


def connect(connection: ServerConnection) -> None:
    """Set the connection of this process to the server."""
    _connections[:] = [connection]


def call_server(name: str, *arguments: Any) -> Any:
    """Return what a function of the server returns, one of those that it offers for the work of this process."""
    return _connections[0].call(name, *arguments)
