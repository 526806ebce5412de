"""Log of requests: a JSON object for each, with an id that the client gets too, and without texts and keys."""

import logging
import re
import secrets
import time
from typing import final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID = "x-request-id"
NO_ROUTE = "(no route)"
"""Path in the log of a request that no route matches."""
_VALID_ID = re.compile(r"[\w.-]{1,64}")
_logger = logging.getLogger("dragoman.requests")


def path_of(scope: Scope) -> str:
    """Return the path pattern of a request's route: the path itself may hold keys, also one that no route matches."""
    return getattr(scope.get("route"), "path", NO_ROUTE)


@final
class RequestLog:
    """Middleware that gives every request an id, and logs its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        identifier = given if _VALID_ID.fullmatch(given) else secrets.token_hex(8)
        begin, status = time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = identifier
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            record = {
                "request_id": identifier,
                "method": scope["method"],
                "path": path_of(scope),
                "status": status,
                "seconds": round(time.monotonic() - begin, 4),
            }
            _logger.info("request", extra={"fields": record})
