"""Translation of files: jobs in memory, which clients start, ask about, and fetch once."""

import asyncio
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal, final

from dragoman.serving.http.errors import RequestError, as_request_error, invalid, overloaded
from dragoman.serving.translation.service import TextFormat

FORMATS: dict[str, TextFormat] = {".txt": "text", ".html": "html", ".htm": "html"}
"""File types that are translated, and how."""
MAX_JOBS = 100
"""Files that are kept; beyond it, completed ones are deleted, the oldest first."""
KEPT_SECONDS = 3600.0
"""Seconds after which a file is deleted that nobody fetched."""
Status = Literal["queued", "translating", "done", "error"]


@final
@dataclass
class DocumentJob:
    """Translation of a file."""

    filename: str
    characters: int
    identifier: str = field(default_factory=lambda: secrets.token_hex(16).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    status: Status = "queued"
    message: str = ""
    """Why the translation failed."""
    content: bytes = b""
    created: float = field(default_factory=time.monotonic)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


def read_document(filename: str, content: bytes) -> tuple[str, TextFormat]:
    """Return the text of a file and its format. Raises RequestError if it cannot be translated."""
    text_format = FORMATS.get(PurePath(filename).suffix.lower())
    if text_format is None:
        raise invalid(f"Invalid file: its type is not supported. Send one of {', '.join(FORMATS)}.", "file")
    try:
        return content.decode("utf-8-sig"), text_format
    except UnicodeDecodeError as error:
        raise invalid(f"The file is not UTF-8 (byte {error.start}).", "file") from error


@final
class DocumentStore:
    """Jobs of all clients."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, DocumentJob] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, filename: str, characters: int, work: Callable[[], Awaitable[str]]) -> DocumentJob:
        """Start a job, whose result is the text that `work` returns. Raises RequestError above the limit."""
        self._forget_old(room_for=1)
        job = DocumentJob(PurePath(filename).name, characters)
        self._jobs[job.identifier] = job

        async def run() -> None:
            job.status = "translating"
            try:
                job.content = (await work()).encode()
                job.status = "done"
            except Exception as error:
                job.status, job.message = "error", as_request_error(error).message
            finally:
                job.ended.set()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def get(self, identifier: str, key: str) -> DocumentJob:
        """Return a job. Raises RequestError if there is none with this identifier and key."""
        self._forget_old()
        job = self._jobs.get(identifier)
        if job is None or not hmac.compare_digest(job.key.encode(), key.encode("utf-8", "surrogatepass")):
            raise RequestError(404, "Document not found", "document_id")
        return job

    def take(self, identifier: str, key: str) -> DocumentJob:
        """Return a completed job and delete it. Raises RequestError if it is not complete."""
        job = self.get(identifier, key)
        if job.status == "error":
            raise RequestError(400, job.message)
        if job.status != "done":
            raise RequestError(503, "Document not ready", retry_after=1)
        del self._jobs[identifier]
        return job

    def _forget_old(self, *, room_for: int = 0) -> None:
        now = time.monotonic()
        for identifier in [one.identifier for one in self._jobs.values() if now - one.created > KEPT_SECONDS]:
            del self._jobs[identifier]
        while len(self._jobs) + room_for > MAX_JOBS:
            done = next((one for one in self._jobs.values() if one.status in ("done", "error")), None)
            if done is None:
                raise overloaded("Too many files are being translated. Try again later.", retry_after=10)
            del self._jobs[done.identifier]
