"""Jobs that translate files in the background, which clients start, ask about, and fetch once.

Every client has a share of the stored files, and no client's file makes room for another's.
"""

import asyncio
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal, final

from dragoman.serving.http.errors import RequestError, as_request_error, overloaded

MIB = 1024**2
MAX_JOBS, MAX_JOBS_OF_CLIENT = 1000, 100
"""Files that are kept, of all clients and of one. For a new file of a client, its oldest completed ones are deleted."""
MAX_BYTES, MAX_BYTES_OF_CLIENT = 1024 * MIB, 256 * MIB
"""Bytes of these files."""
KEPT_SECONDS = 3600.0
"""Seconds after which a file is deleted that nobody fetched."""
ACCEPT_SECONDS = 10.0
"""Seconds after which an upload is answered whose file waits to be read; its errors are then those of the job."""
Status = Literal["queued", "translating", "done", "error"]
_logger = logging.getLogger(__name__)


@final
@dataclass(eq=False)
class DocumentJob:
    """Translation of a file."""

    filename: str
    client: str
    """Name of the client, whose share of the stored files it takes."""
    size: int
    """Bytes of the file, and then of its translation."""
    characters: int = 0
    identifier: str = field(default_factory=lambda: secrets.token_hex(16).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    status: Status = "queued"
    error: RequestError | None = None
    """Why the translation failed."""
    content: bytes = b""
    needs_review: int = 0
    """Texts of the translation that a person should look at."""
    created: float = field(default_factory=time.monotonic)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the file is read and its translation begins."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the file is translated or cannot be."""
        return self.status in ("done", "error")

    def start(self, characters: int) -> None:
        """Note that the texts of the file are translated from now on."""
        self.status, self.characters = "translating", characters
        self.started.set()

    async def run(self, work: Awaitable[bytes]) -> None:
        """Set the file that a coroutine returns, or its error."""
        try:
            self.content = await work
            self.status, self.size = "done", len(self.content)
        except asyncio.CancelledError:
            self.status, self.error = "error", RequestError(503, "The translation was ended.")
            raise
        except Exception as error:
            self.status, self.size, self.error = "error", 0, as_request_error(error)
            if self.error.status == 500 and not isinstance(error, RequestError):
                _logger.exception("internal error while translating a file")
        finally:
            self.started.set()
            self.ended.set()


@final
class DocumentStore:
    """Jobs of all clients."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, DocumentJob] = OrderedDict()

    async def start(
        self, filename: str, size: int, client: str, work: Callable[[DocumentJob], Awaitable[bytes]]
    ) -> DocumentJob:
        """Start a job, whose result is the file that `work` returns, and return it when its file is read.

        Raises RequestError if the file cannot be translated, or a limit does not admit it. A caller that is cancelled
        meanwhile ends the job.
        """
        self._make_space(client, size)
        job = DocumentJob(PurePath(filename).name, client, size)
        self._jobs[job.identifier] = job
        job.task = asyncio.create_task(job.run(work(job)))
        try:
            await asyncio.wait([asyncio.ensure_future(job.started.wait())], timeout=ACCEPT_SECONDS)
        except asyncio.CancelledError:
            self.end(job)
            raise
        if job.error is not None:
            self.end(job)
            raise job.error
        return job

    async def wait(self, job: DocumentJob) -> None:
        """Wait until a job has ended. Raises its error; a caller that is cancelled meanwhile ends the job."""
        try:
            await job.ended.wait()
        except asyncio.CancelledError:
            self.end(job)
            raise
        if job.error is not None:
            self.end(job)
            raise job.error

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
        if job.error is not None:
            raise RequestError(400, job.error.message)
        if job.status != "done":
            raise RequestError(503, "Document not ready", retry_after=1)
        self.end(job)
        return job

    def end(self, job: DocumentJob) -> None:
        """Forget a job, and end its work."""
        self._jobs.pop(job.identifier, None)
        if job.task is not None:
            job.task.cancel()

    async def close(self) -> None:
        """End all jobs."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, client: str) -> Iterator[DocumentJob]:
        return (job for job in self._jobs.values() if job.client == client)

    def _forget_old(self) -> None:
        now = time.monotonic()
        for job in [one for one in self._jobs.values() if now - one.created > KEPT_SECONDS]:
            self.end(job)

    def _make_space(self, client: str, size: int) -> None:
        """Delete completed files of a client until a new one fits. Raises RequestError if that does not suffice."""
        self._forget_old()
        complete = [job for job in self._of(client) if job.is_complete]
        while not self._fits(client, size):
            if not complete:
                raise overloaded(
                    "Too many files are being translated or wait to be fetched. Try again later.", retry_after=10
                )
            self.end(complete.pop(0))

    def _fits(self, client: str, size: int) -> bool:
        """Return whether a new file is within the shares of a client and of all clients."""
        own, everyone = list(self._of(client)), self._jobs.values()
        return (
            len(own) < MAX_JOBS_OF_CLIENT
            and len(everyone) < MAX_JOBS
            and sum(job.size for job in own) + size <= MAX_BYTES_OF_CLIENT
            and sum(job.size for job in everyone) + size <= MAX_BYTES
        )
