"""Requests of HTTP: a body of bounded size in bounded time, JSON or form, and work that ends when the client leaves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from dragoman.serving.config import LimitsConfig
from dragoman.serving.http.errors import RequestError, as_request_error, invalid
from dragoman.serving.http.request_log import path_of
from dragoman.untrusted_files import parse_json

ErrorRenderer = Callable[[RequestError], Response]
CLIENT_GONE = 499
"""Status in the log of a request whose client left before the answer."""
JSON, FORM, FILES = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
LARGE = 64 * 1024
"""Bytes of a JSON body above which a worker reads it: 2 MiB of small values take seconds."""
MAX_ERRORS = 100
"""Invalid parameters of a request above which none is named: each takes time to describe."""
_PART = 64 * 1024
"""Bytes of a form that are read before other requests have their turn."""
_A = TypeVar("_A")
_B = TypeVar("_B", bound=BaseModel)
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class ProtocolRouter(APIRouter):
    """Router of a protocol, which shows all errors below some addresses in the shape of the protocol."""

    def __init__(self, render_error: ErrorRenderer, addresses: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self._render_error = render_error
        self._addresses = tuple(addresses)

    def is_addressed(self, path: str) -> bool:
        """Return whether a path without a route belongs to the protocol."""
        return path.startswith(self._addresses)

    def render_missing(self, request: Request, error: HTTPException) -> Response:
        """Answer a request without a route."""
        message = f"{error.detail}: {request.method} {request.url.path[:200]}"
        response = self._render_error(RequestError(error.status_code, message))
        response.headers.update(error.headers or {})
        return response


def protocol_router(render: ErrorRenderer, *, addresses: Sequence[str] = (), **options: Any) -> ProtocolRouter:
    """Return a router of a protocol, whose errors `render` puts into the shape of the protocol.

    All `addresses`, and what is below them, belong to the protocol.
    """

    class ProtocolRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handler(request: Request) -> Response:
                response = await respond(request)
                request.app.state.server.metrics.count_response(interface_of(request), response.status_code)
                return response

            async def respond(request: Request) -> Response:
                try:
                    return await _answer(request, handle)
                except ClientDisconnect:
                    return Response(status_code=CLIENT_GONE)
                except RequestValidationError as error:
                    return render(describe_invalid(error.errors()))
                except Exception as error:
                    shown = as_request_error(error)
                    if shown.status == 500 and shown is not error:
                        _logger.exception("internal error while answering %s", path_of(request.scope))
                    return render(shown)

            return handler

    return ProtocolRouter(render, addresses, route_class=ProtocolRoute, **options)


def error_responses(answer: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the entries of the OpenAPI description for errors, which have the shape `answer` in all statuses."""
    texts: dict[int | str, str] = {
        "4XX": "The request is invalid (400), needs a valid key (401 or 403), asks for something that does not exist "
        "(404), arrives too slowly (408), is too large (413), or is above the rate or quota of its client (429)",
        501: "The server is not set up for this request",
        503: "The server is busy or takes too long; the header `Retry-After` tells when to try again",
    }
    return {status: {"model": answer, "description": text} for status, text in texts.items()}


def interface_of(request: Request) -> str:
    """Return the interface that a request speaks: the tag of its router."""
    return str(request.scope["route"].tags[0])


async def _answer(request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
    """Return the response of a handler. Raises ClientDisconnect, and cancels the handler, if the client leaves."""
    limits: LimitsConfig = request.app.state.server.config.limits
    work = asyncio.ensure_future(handle(await _with_whole_body(request, limits)))
    gone = asyncio.ensure_future(until_gone(request.receive))
    try:
        await asyncio.wait({work, gone}, timeout=limits.timeout, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if gone.done():
            raise ClientDisconnect
        raise TimeoutError
    finally:
        gone.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})


async def until_gone(receive: Receive) -> None:
    """Wait until the client of a request whose body was read leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _with_whole_body(request: Request, limits: LimitsConfig) -> Request:
    """Return a request whose body has arrived. Raises RequestError if it is too large or too slow."""
    limit = limits.max_file if content_type(request) == FILES else limits.max_body
    too_large = RequestError(413, f"The request is larger than {limit:,} bytes. Send less at once.")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 18 or int(length) > limit:
        raise too_large
    parts: list[bytes] = []
    missing = limit
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for part in request.stream():
                missing -= len(part)
                if missing < 0:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise RequestError(408, "The body of the request did not arrive in time. Send it again.") from None
    messages = _messages(b"".join(parts))

    async def receive() -> Any:
        await asyncio.sleep(0)  # others have their turn while a form is read
        return next(messages, None) or await request.receive()

    return Request(request.scope, receive)


def _messages(body: bytes) -> Iterator[dict[str, Any]]:
    """Yield the messages of a body, in parts."""
    starts = range(0, max(len(body), 1), _PART)
    for start in starts:
        yield {"type": "http.request", "body": body[start : start + _PART], "more_body": start + _PART < len(body)}


def content_type(request: Request) -> str:
    """Return the media type of the body, JSON where none is given."""
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()


async def read_body(request: Request, kind: type[_B], *, lists: frozenset[str] = frozenset()) -> _B:
    """Return the parameters of a request as `kind`: those of a JSON body, or of a form and of the address.

    The fields in `lists` of a form may be given several times. Raises RequestError if a parameter is invalid.
    """
    if _has_json(request):
        return await _run(request, read_json, await request.body(), kind)
    fields = [*request.query_params.multi_items(), *await _form_fields(request, max_files=0, max_fields=10_000)]
    tree: dict[str, Any] = dict(fields)
    tree |= {name: [value for one, value in fields if one == name] for name in lists & tree.keys()}
    return check_body(tree, kind)


async def read_parameter(request: Request, name: str) -> str:
    """Return a text among the parameters of a request, also of one with a file; an empty one where it is missing."""
    if name in request.query_params:
        return request.query_params[name]
    if _has_json(request):
        return await _run(request, read_text, await request.body(), name)
    max_files = 1 if content_type(request) == FILES else 0
    return dict(await _form_fields(request, max_files=max_files, max_fields=10_000)).get(name, "")


def _has_json(request: Request) -> bool:
    """Return whether the parameters of a request are those of a JSON body."""
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    is_form = content_type(request) in (FORM, FILES)
    return not is_form and (has_body or (request.method != "GET" and not request.query_params))


async def _form_fields(request: Request, *, max_files: int, max_fields: int) -> list[tuple[str, str]]:
    """Return the texts of a form, which a request keeps; none if the body is no form."""
    if content_type(request) not in (FORM, FILES):
        return []
    try:
        form = await request.form(max_files=max_files, max_fields=max_fields)
    except HTTPException as error:
        raise invalid("The body is not a valid form.") from error
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


async def read_upload(request: Request, kind: type[_B]) -> tuple[_B, str, bytes]:
    """Return the parameters, and name and content of the file in the field `file` of a form.

    Raises RequestError if a parameter is invalid or the file is missing.
    """
    if content_type(request) != FILES:
        raise invalid(f"The body is no form with a file. Send {FILES}.")
    try:
        async with request.form(max_files=1, max_fields=100) as form:
            fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise invalid("Invalid request: missing file parameter", "file")
            return check_body(fields, kind), file.filename or "", await file.read()
    except HTTPException as error:
        raise invalid("The body is not a valid form.") from error


async def _run(request: Request, function: Callable[[bytes, _A], _T], body: bytes, argument: _A) -> _T:
    """Return what a function makes of a JSON body, which a worker calls for a large one."""
    if len(body) <= LARGE:
        return function(body, argument)
    client = request.client.host if request.client is not None else ""
    found: _T = await request.app.state.server.workers.run(function, body, argument, client=client)
    return found


def read_json(body: bytes, kind: type[_B]) -> _B:
    """Return the parameters of a JSON body as `kind`. Raises RequestError if one is invalid."""
    return check_body(parse_object(body), kind)


def read_text(body: bytes, name: str) -> str:
    """Return a parameter of a JSON body; an empty text where it is missing or no text."""
    value = parse_object(body).get(name)
    return value if isinstance(value, str) else ""


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object of a JSON body. Raises RequestError if it is none."""
    try:
        tree = parse_json(body)
    except ValueError as error:
        raise invalid(f"The body is not valid JSON: {error}.") from error
    if not isinstance(tree, dict):
        raise invalid("The body is not a JSON object.")
    return tree


def check_body(tree: Mapping[str, Any], kind: type[_B]) -> _B:
    """Return the parameters of a request as `kind`. Raises RequestError with the first that is invalid."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        if (count := error.error_count()) > MAX_ERRORS:
            raise invalid(f"Invalid request: {count:,} parameters or items are invalid.") from None
        raise describe_invalid(error.errors(include_url=False, include_context=False, include_input=False)) from error


def describe_invalid(errors: Any) -> RequestError:
    """Return the error of the first invalid parameter."""
    first = errors[0]
    names = [str(one) for one in first["loc"] if one not in ("body", "query", "path", "header")]
    name = ".".join(names)
    problem = first["msg"].removeprefix("Value error, ") if first["type"] != "extra_forbidden" else "unknown parameter"
    return invalid(f"Invalid request: {name}: {problem}." if name else f"Invalid request: {problem}.", name or None)


def json_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a class with the schemas of its parts in their places, so that it may stand anywhere."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolve(definitions[part["$ref"].rpartition("/")[2]])
        return {name: resolve(one) for name, one in part.items()}

    resolved: dict[str, Any] = resolve(schema)
    return resolved


def query_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the entry of the OpenAPI description for parameters in the address."""
    properties = json_schema(kind)["properties"]
    return {"parameters": [{"name": name, "in": "query", "schema": one} for name, one in properties.items()]}


def upload_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the entry of the OpenAPI description for a form that `read_upload` reads."""
    schema = json_schema(kind)
    schema["properties"]["file"] = {"type": "string", "format": "binary"}
    schema["required"] = [*schema.get("required", []), "file"]
    return {"requestBody": {"required": True, "content": {FILES: {"schema": schema}}}}


def body_schema(kind: type[BaseModel], *, form: bool = True) -> dict[str, Any]:
    """Return the entry of the OpenAPI description for a body that `read_body` reads."""
    schema = {"schema": json_schema(kind)}
    return {"requestBody": {"required": True, "content": {JSON: schema} | ({FORM: schema} if form else {})}}


def attachment(filename: str) -> dict[str, str]:
    """Return the header of a response that is saved under a name."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(filename)}"}
