"""Errors and keys of the interface of OpenAI, and parameters of which only one value is supported."""

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator
from pydantic_core import PydanticCustomError

from dragoman.serving.access.admission import Client
from dragoman.serving.http.errors import QuotaExceededError, RequestError
from dragoman.serving.http.requests import ProtocolRouter, error_responses, protocol_router
from dragoman.serving.server import Server

_SCHEME = "bearer "
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class ErrorObject(BaseModel):
    """Error of a request."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(BaseModel):
    """Answer to a request with an error."""

    error: ErrorObject


def error_answer(error: RequestError) -> ErrorAnswer:
    """Return the error object of an error."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    code = _CODES.get(error.status)
    if isinstance(error, QuotaExceededError):
        code = "insufficient_quota"
    elif error.status == 404 and error.parameter == "model":
        code = "model_not_found"
    return ErrorAnswer(error=ErrorObject(message=error.message, type=kind, param=error.parameter, code=code))


def _render(error: RequestError) -> JSONResponse:
    return JSONResponse(error_answer(error).model_dump(), error.status, error.headers)


def openai_router() -> ProtocolRouter:
    """Return a router of this interface."""
    errors = error_responses(ErrorAnswer)
    return protocol_router(_render, prefix="/v1", addresses=("/v1/",), tags=["OpenAI"], responses=errors)


def client_of(request: Request, server: Server) -> Client:
    """Return the client of a request by its key. Raises RequestError with status 401 for a wrong one."""
    given = request.headers.get("authorization", "")
    key = given[len(_SCHEME) :].strip() if given[: len(_SCHEME)].casefold() == _SCHEME else None
    return server.client_of(request, key, status=401)


def only(*values: object) -> BeforeValidator:
    """Return the validator of a parameter without effect here, which refuses all but these values and null."""

    def check(value: object) -> None:
        # In Python, false equals 0.
        is_known = any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)
        if value is not None and not is_known:
            shown = " or ".join(map(repr, values)) or "null"
            raise PydanticCustomError("not_supported", "this server supports {shown} only", {"shown": shown})

    return BeforeValidator(check, json_schema_input_type=None)
