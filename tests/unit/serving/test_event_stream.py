"""Streams of events: errors, slow clients and clients that leave."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from dragoman.serving.http import event_stream
from dragoman.serving.http.errors import RequestError, invalid
from dragoman.serving.http.event_stream import EventStream, event


class Connection:
    """A client that reads until it leaves, or until it stops reading, after some events."""

    def __init__(self, *, leaves_after: int | None = None, reads: int = 100) -> None:
        self.sent: list[str] = []
        self.is_complete = False
        self._leaves_after = leaves_after
        self._reads = reads
        self._gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            return
        if len(self.sent) >= self._reads:
            await asyncio.Event().wait()
        self.sent.append(message["body"].decode())
        self.is_complete = not message["more_body"]
        if len(self.sent) == self._leaves_after:
            self._gone.set()
            await asyncio.sleep(0.01)


class Source:
    """Events that count from 0, up to an error or a pause."""

    def __init__(self, *, error: Exception | None = None, count: int = 5, pause: float = 0.0) -> None:
        self.made = 0
        self.closed = False
        self._error, self._count, self._pause = error, count, pause

    async def events(self) -> AsyncGenerator[str, None]:
        try:
            for number in range(self._count):
                await asyncio.sleep(self._pause)
                self.made += 1
                yield event(str(number))
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


async def answer(source: Source, connection: Connection, *, timeout: float = 5.0) -> None:
    stream = await EventStream.begin(source.events(), timeout=timeout, render_error=lambda error: event(error.message))
    await stream({"path": "/", "type": "http"}, connection.receive, connection.send)


def run(source: Source, *, timeout: float = 5.0, **behavior: int) -> Connection:
    async def main() -> Connection:
        connection = Connection(**behavior)
        await answer(source, connection, timeout=timeout)
        return connection

    return asyncio.run(main())


def test_all_events_are_sent():
    source = Source()
    found = run(source)
    assert "".join(found.sent) == "".join(f"data: {number}\n\n" for number in range(5))
    assert found.is_complete
    assert source.closed


def test_an_error_before_the_first_event_is_raised():
    source = Source(count=0, error=invalid("wrong"))
    with pytest.raises(RequestError, match="wrong"):
        run(source)
    assert source.closed


@pytest.mark.parametrize(("error", "message"), [(invalid("wrong"), "wrong"), (KeyError("secret"), "Internal error.")])
def test_a_later_error_is_an_event(error, message):
    found = run(Source(error=error))
    assert found.sent[-2:] == [event(message), ""]
    assert found.is_complete


def test_a_client_that_leaves_closes_the_source():
    source = Source(count=1000, pause=0.001)
    found = run(source, leaves_after=3)
    assert source.closed
    assert source.made < 10
    assert not found.is_complete


def test_a_stream_that_takes_too_long_ends_with_an_event():
    source = Source(count=1000, pause=0.01)
    found = run(source, timeout=0.1)
    assert "took too long" in found.sent[-2]
    assert found.is_complete
    assert source.closed


def test_a_client_that_does_not_read_is_left(monkeypatch):
    monkeypatch.setattr(event_stream, "_ERROR_TIMEOUT", 0.1)
    source = Source(count=1000)
    found = run(source, timeout=0.1, reads=2)
    assert len(found.sent) == 2
    assert not found.is_complete
    assert source.closed
