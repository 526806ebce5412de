"""The web page at `/`: the files of the folder `web`, without inline scripts, which load nothing from elsewhere."""

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Types of files that are served."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Content security policy: scripts and styles from files of this server only."""
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""`no-cache`: browsers keep the files, and ask each time whether they have changed."""

router = APIRouter(include_in_schema=False)


class WebFile(NamedTuple):
    """File of the page."""

    content: bytes
    media_type: str
    etag: str


@cache
def web_files() -> dict[str, WebFile]:
    """Return the files of the page by name."""
    found: dict[str, WebFile] = {}
    for one in (files(__package__) / "web").iterdir():
        if media_type := MEDIA_TYPES.get(PurePath(one.name).suffix):
            content = one.read_bytes()
            found[one.name] = WebFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """Return the web page."""
    return _respond(request, "index.html")


@router.api_route("/web/{name}", methods=["GET", "HEAD"])
async def page_file(request: Request, name: str) -> Response:
    """Return a script, style or picture of the web page."""
    return _respond(request, name)


def _respond(request: Request, name: str) -> Response:
    """Return a file, or status 304 if the browser has it. Raises HTTPException with status 404 for another name."""
    file = web_files().get(name)
    if file is None:
        raise HTTPException(404)
    headers = HEADERS | {"ETag": file.etag}
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if known & {file.etag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
