"""Translation of long texts and of files in workers, which the server can stop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, final

from dragoman.inference import Translator
from dragoman.serving.config import ProtectedTexts, ServerConfig
from dragoman.serving.http.errors import invalid
from dragoman.serving.served_models import ModelStore
from dragoman.serving.translation import worker_functions
from dragoman.serving.translation.languages import DetectedLanguage
from dragoman.serving.translation.service import TranslatedText, TranslationRequest
from dragoman.serving.translation.terms import GlossaryChoice
from dragoman.serving.translation.worker_functions import ServiceDescription, TranslatedDocument
from dragoman.serving.workers.calls import dump
from dragoman.serving.workers.pool import Calls, WorkerPool
from dragoman.serving.workers.remote_translator import decoding_calls

_T = TypeVar("_T")
SHORT = 4000
"""Characters of a request that the server analyzes itself, in 20 milliseconds at most; a worker adds some to each."""
MEMORY_PER_BYTE = 3
MEMORY = 150 * 1024**2
"""Bytes of memory that a worker may take for each byte of a text or file, and besides; the server takes some, too."""


@final
class TranslationWorkers:
    """Two pools of workers: one for texts, and one for files, so that texts do not wait for long files."""

    def __init__(
        self,
        config: ServerConfig,
        store: ModelStore,
        glossaries: GlossaryChoice,
        *,
        on_timeout: Callable[[], None],
    ) -> None:
        """`on_timeout` is called when work is ended at its deadline."""
        self._store = store
        self._glossaries = glossaries
        self._placeholders: ProtectedTexts = config.placeholders
        self._texts, self._files = (
            WorkerPool(config.workers, time_limit=config.limits.analysis_timeout, on_timeout=on_timeout)
            for _ in range(2)
        )
        self._description: tuple[int, bytes] | None = None

    def prepare(self) -> None:
        """Start a worker for texts and one for files."""
        for pool in (self._texts, self._files):
            pool.prepare()

    async def close(self) -> None:
        """End all workers."""
        for pool in (self._texts, self._files):
            await pool.close()

    async def run(self, function: Callable[..., _T], /, *arguments: Any, client: str) -> _T:
        """Return what a function of a module returns in a worker for texts."""
        return await self._texts.run(function, *arguments, client=client)

    async def translate(self, request: TranslationRequest, *, client: str) -> list[TranslatedText]:
        """Translate the texts of a request as `TranslationService.translate` does."""
        return await self._texts.run(
            *(worker_functions.translate, self._store.version, request),
            calls=self._calls(),
            client=client,
            memory=MEMORY + MEMORY_PER_BYTE * request.size,
        )

    async def detect(
        self, texts: Sequence[str], target: str | None = None, *, client: str
    ) -> list[Sequence[DetectedLanguage]]:
        """Return the languages of texts as `TranslationService.detect` does."""
        return await self._texts.run(
            worker_functions.detect, self._store.version, texts, target, calls=self._calls(), client=client
        )

    async def translate_document(
        self,
        filename: str,
        content: bytes,
        request: TranslationRequest,
        *,
        client: str,
        begin: Callable[[int], Awaitable[None]],
    ) -> TranslatedDocument:
        """Translate a file; `begin` gets the number of its characters, and may refuse it by raising an error."""
        return await self._files.run(
            worker_functions.translate_document,
            *(self._store.version, filename, content, request),
            calls={**self._calls(), "begin": begin},
            client=client,
            memory=MEMORY + MEMORY_PER_BYTE * len(content),
        )

    def _calls(self) -> Calls:
        """Return the functions that a worker may call, of the models as they are now."""
        version, models = self._store.version, self._store.models
        translators = {one.name: one.model for one in models if isinstance(one.model, Translator)}

        async def describe() -> bytes:
            if self._description is None or self._description[0] != version:
                description = ServiceDescription.of(ModelStore.of(models), self._glossaries, self._placeholders)
                self._description = version, await asyncio.to_thread(dump, description)
            return self._description[1]

        return {**decoding_calls(translators), "describe": describe}


def check_short(text: str, what: str) -> None:
    """Raise RequestError for a text that is too long to be analyzed in the process of the server."""
    if len(text) > SHORT:
        raise invalid(f"Invalid request: {what} has {len(text):,} characters, and at most {SHORT:,} are allowed", what)
