"""Keys of clients and errors, which versions 2 and 3 of the interface of DeepL share."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from dragoman.serving.access.admission import Client
from dragoman.serving.http.errors import QuotaExceededError, RequestError
from dragoman.serving.http.requests import ProtocolRouter, error_responses, protocol_router, read_parameter
from dragoman.serving.server import ServerDep

QUOTA_EXCEEDED = 456
"""Status above the quota."""
SCHEME = "DeepL-Auth-Key "


class DeepLBody(BaseModel, extra="forbid"):
    """Body of a request."""

    auth_key: str | None = Field(default=None, description="API key of clients that send no header Authorization")


class ErrorAnswer(BaseModel):
    """Answer to a request with an error."""

    message: str


def _render(error: RequestError) -> JSONResponse:
    name = f"{error.parameter}_lang: " if error.parameter in ("source", "target") else ""
    status = QUOTA_EXCEEDED if isinstance(error, QuotaExceededError) else error.status
    return JSONResponse({"message": name + error.message}, status, error.headers)


async def _client(request: Request, server: ServerDep) -> Client:
    given = request.headers.get("authorization", "")
    if given[: len(SCHEME)].casefold() == SCHEME.casefold():
        key = given[len(SCHEME) :]
    else:
        key = "" if server.keys is None else await read_parameter(request, "auth_key")
    return server.client_of(request, key)


ClientDep = Annotated[Client, Depends(_client)]
"""The caller, by the key in the header `Authorization: DeepL-Auth-Key KEY`, or in `auth_key`, where keys are needed."""


def deepl_router(prefix: str) -> ProtocolRouter:
    """Return a router for the addresses of a version, all of which check the key."""
    return protocol_router(
        _render,
        prefix=prefix,
        addresses=(f"{prefix}/",),
        tags=["DeepL"],
        responses=error_responses(ErrorAnswer),
        dependencies=[Depends(_client)],
    )
