"""HTTP connections on which the head of a request, its address and headers, is bounded in size and time.

uvicorn waits without end for the first request of a connection, and for the rest of headers that never end.
"""

import asyncio
from typing import Any, final

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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_head or self.transport.is_closing():
            return
        self._head_size += len(data)
        if self._head_size > MAX_HEAD:
            self.send_400_response(f"The address and headers are larger than {MAX_HEAD:,} bytes.")
        elif self._deadline is None:
            self._start_deadline()

    def on_headers_complete(self) -> None:
        self._stop_deadline()
        self._awaits_head, self._head_size = False, 0
        self._awaits_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
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
