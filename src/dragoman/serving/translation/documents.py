"""Translation of files: jobs in memory, which clients start, ask about, and fetch once."""

import asyncio
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal, final

from dragoman.data.documents.document import Document, Unit, UnitTranslation
from dragoman.data.documents.recognize import ENDINGS, open_document
from dragoman.errors import DataError
from dragoman.serving.http.errors import RequestError, as_request_error, invalid, overloaded
from dragoman.serving.translation.service import TextFormat, TranslatedText, TranslationRequest, TranslationService

FORMATS = tuple(ENDINGS)
"""Endings of the files that are translated."""
_TAG = re.compile(r"<[^<>]*>")
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


def read_document(filename: str, content: bytes, target: str) -> Document:
    """Return the texts of a file as units. Raises RequestError if it cannot be translated."""
    name = PurePath(filename).name
    if PurePath(name).suffix.lower() not in FORMATS:
        raise invalid(f"Invalid file: its type is not supported. Send one of {', '.join(FORMATS)}.", "file")
    try:
        return open_document(content, name=name, target_language=target)
    except DataError as error:
        raise invalid(str(error), "file") from error


@final
class DocumentTexts:
    """Texts of a document that have no translation yet; equal ones are translated once."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._units = list(document.units)
        self._chosen = [
            number
            for number, unit in enumerate(self._units)
            if unit.state == "untranslated" and any(map(str.isalpha, _TAG.sub("", unit.source)))
        ]
        self._found: dict[tuple[TextFormat, str], str] = {}

    @property
    def characters(self) -> str:
        """Characters of all texts, without their tags."""
        return "\n".join(_TAG.sub("", self._units[number].source) for number in self._chosen)

    async def translate(self, request: TranslationRequest, service: TranslationService) -> list[TranslatedText]:
        """Translate all texts, those with tags as XML, and return their translations."""
        translated: list[TranslatedText] = []
        for text_format in sorted({_format(self._units[number]) for number in self._chosen}):
            own = (self._units[number] for number in self._chosen)
            texts = list(dict.fromkeys(unit.source for unit in own if _format(unit) == text_format))
            found = await service.translate(replace(request, texts=texts, text_format=text_format))
            self._found |= {(text_format, text): one.text for text, one in zip(texts, found, strict=True)}
            translated.extend(found)
        return translated

    def fill(self) -> bytes:
        """Return the file with the translations; other units stay as they are."""
        translations: list[UnitTranslation | None] = [None] * len(self._units)
        for number in self._chosen:
            unit = self._units[number]
            text = self._found.get((_format(unit), unit.source))
            translations[number] = None if text is None else UnitTranslation(text=text)
        return self._document.fill(translations)


def _format(unit: Unit) -> TextFormat:
    return "text" if unit.markup is None else unit.markup


@final
class DocumentStore:
    """Jobs of all clients."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, DocumentJob] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, filename: str, characters: int, work: Callable[[], Awaitable[bytes]]) -> DocumentJob:
        """Start a job, whose result is the file that `work` returns. Raises RequestError above the limit."""
        self._forget_old(room_for=1)
        job = DocumentJob(PurePath(filename).name, characters)
        self._jobs[job.identifier] = job

        async def run() -> None:
            job.status = "translating"
            try:
                job.content = await work()
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
