"""Parts that the bodies, answers and errors of the native interface share."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from dragoman.serving.access.admission import Client
from dragoman.serving.http.errors import RequestError
from dragoman.serving.http.requests import ProtocolRouter, error_responses, protocol_router
from dragoman.serving.server import ServerDep


class Body(BaseModel):
    """Body of a request. Unknown parameters are refused, not ignored, and so are numbers in texts."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(default=None, description="name of the model; default: the first that can do this")


class ErrorMessage(BaseModel):
    """Error of a request."""

    message: str
    parameter: str | None = Field(default=None, description="parameter of the request that the message is about")


class ErrorAnswer(BaseModel):
    """Answer to a request that failed."""

    error: ErrorMessage


def error_answer(error: RequestError) -> ErrorAnswer:
    """Return what is shown of an error."""
    return ErrorAnswer(error=ErrorMessage(message=error.message, parameter=error.parameter))


def _render(error: RequestError) -> JSONResponse:
    return JSONResponse(error_answer(error).model_dump(), error.status, error.headers)


def native_router() -> ProtocolRouter:
    """Return a router for a part of the interface."""
    return protocol_router(
        _render, addresses=("/api/",), prefix="/api", tags=["Native"], responses=error_responses(ErrorAnswer)
    )


async def _client(request: Request, server: ServerDep) -> Client:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return server.client_of(request, key.strip() if scheme.casefold() == "bearer" else None, status=401)


ClientDep = Annotated[Client, Depends(_client)]
"""The caller, by the key in the header `Authorization: Bearer KEY` where keys are needed."""


def one_or_more(texts: str | Sequence[str]) -> list[str]:
    """Return the texts of a parameter that is a text or a list."""
    return [texts] if isinstance(texts, str) else list(texts)
