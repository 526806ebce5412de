"""Answers that are sent piece by piece, as server-sent events: https://html.spec.whatwg.org/#server-sent-events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, Self, final

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from dragoman.serving.http.errors import RequestError, as_request_error
from dragoman.serving.http.request_log import path_of
from dragoman.serving.http.requests import json_schema, until_gone

EVENT_STREAM = "text/event-stream"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""No proxy may hold events back."""
_ERROR_TIMEOUT = 1.0
"""Seconds in which the error of a stream has to be sent, also to a client that reads slowly."""
_logger = logging.getLogger(__name__)


def event(data: str) -> str:
    """Return the event with some data, which has no line breaks."""
    return f"data: {data}\n\n"


def stream_description(*kinds: type[BaseModel], last: str | None = None) -> dict[str, Any]:
    """Return the entry of the OpenAPI description for a stream.

    The data of each event is JSON of one of the classes, or, of the last event, a fixed text.
    """
    data: list[dict[str, Any]] = [
        {"type": "string", "contentMediaType": "application/json", "contentSchema": json_schema(kind)} for kind in kinds
    ]
    data += [] if last is None else [{"const": last}]
    return {EVENT_STREAM: {"schema": {"type": "object", "required": ["data"], "properties": {"data": {"anyOf": data}}}}}


@final
class EventStream(Response):
    """Response that sends events while they are made. Its work ends with the last one, or when the client leaves."""

    media_type = EVENT_STREAM

    def __init__(
        self,
        first: str,
        others: AsyncGenerator[str, None],
        *,
        timeout: float,
        render_error: Callable[[RequestError], str],
    ) -> None:
        super().__init__(None, headers=_HEADERS)
        del self.headers["content-length"]
        self._first = first
        self._others = others
        self._timeout = timeout
        self._render_error = render_error

    @classmethod
    async def begin(
        cls, events: AsyncGenerator[str, None], *, timeout: float, render_error: Callable[[RequestError], str]
    ) -> Self:
        """Return a response when its first event is made; errors before it are raised.

        An error after it, also that the stream takes more than `timeout` seconds, is sent as the event that
        `render_error` returns.
        """
        return cls(await anext(events), events, timeout=timeout, render_error=render_error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response (the interface of ASGI)."""
        sending = asyncio.ensure_future(self._send(scope, send))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            gone.cancel()
            await asyncio.wait({sending, gone})
            await self._others.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send(self, scope: Scope, send: Send) -> None:
        """Send the events, and the error that ends them early."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(self._timeout):
                await _send_text(send, self._first)
                async for one in self._others:
                    await _send_text(send, one)
        except Exception as error:
            shown = as_request_error(error)
            if shown.status == 500 and shown is not error:
                _logger.exception("internal error while answering %s", path_of(scope))
            try:
                async with asyncio.timeout(_ERROR_TIMEOUT):
                    await _send_text(send, self._render_error(shown))
            except TimeoutError:  # the client does not read: the server closes the connection
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
