"""HTTP connections on which the head of a request, its address and headers, is bounded in size and time.

uvicorn waits without end for the first request of a connection, and for the rest of headers that never end. It also
drops the body of a request that offers another protocol, such as HTTP/2 (`Upgrade: h2c`), which a server may ignore.
"""

import asyncio
from typing import Any, final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024
"""Bytes of the address and the headers of a request, received before their last part."""


@final
class BoundedConnection(HttpToolsProtocol):
    """Connection that is closed when the head of a request is too large or too slow.

    A head has `head_timeout` seconds to arrive, as has the rest of a body whose request is refused already. Between two
    requests, the keep-alive timeout of uvicorn applies.
    """

    def __init__(self, *arguments: Any, head_timeout: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timeout = head_timeout
        self._head_size = 0
        self._awaits_head = True
        self._awaits_body = False
        self._deadline: asyncio.TimerHandle | None = None
        self._is_resuming = False
        """Whether the parser reads a head that was read before."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._parse(data)
        if not self._awaits_head or self.transport.is_closing():
            return
        self._head_size += len(data)
        if self._head_size > MAX_HEAD:
            self.send_400_response(f"The address and headers are larger than {MAX_HEAD:,} bytes.")
        elif self._deadline is None:
            self._start_deadline()

    def _parse(self, data: bytes) -> None:
        """Parse a part of a request, as uvicorn does in `data_received`."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as upgrade:  # the parser stops behind the head
            self._resume_without_upgrade(data[upgrade.args[0] :])

    def _resume_without_upgrade(self, rest: bytes) -> None:
        """Read the body of a request that offers another protocol, which is not taken up."""
        names = (b"content-length", b"transfer-encoding")
        framing = b"".join(b"%b: %b\r\n" % (name, value) for name, value in self.headers if name in names)
        self.parser = httptools.HttpRequestParser(self)
        self._is_resuming = True
        self._parse(b"POST / HTTP/1.1\r\n" + (framing or b"Content-Length: 0\r\n") + b"\r\n")
        self._parse(rest)

    def on_message_begin(self) -> None:
        if not self._is_resuming:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_resuming:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_resuming:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_resuming:
            self._is_resuming = False
            return
        self._stop_deadline()
        self._awaits_head, self._head_size = False, 0
        self._awaits_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():  # behind the head, before the body
            return
        self._awaits_body = False
        if self.cycle.response_complete:
            self._stop_deadline()
            self._awaits_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._awaits_body:  # of a request that was refused before
            self._start_deadline()
        else:
            self._awaits_head = True

    def _start_deadline(self) -> None:
        self._stop_deadline()
        self._deadline = self.loop.call_later(self._head_timeout, self.timeout_keep_alive_handler)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
