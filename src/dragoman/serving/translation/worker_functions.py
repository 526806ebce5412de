"""Functions that the server runs in workers: translation of long texts and of files, and detection of languages."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, final

from dragoman.inference import Translator
from dragoman.runs.translate_file import FileOptions
from dragoman.serving.config import ProtectedTexts
from dragoman.serving.http.errors import invalid
from dragoman.serving.served_models import LanguagePair, ModelStore, ServedModel
from dragoman.serving.translation.documents import read_document, text_to_translate
from dragoman.serving.translation.languages import DetectedLanguage
from dragoman.serving.translation.service import TranslatedText, TranslationRequest, TranslationService
from dragoman.serving.translation.terms import GlossaryChoice
from dragoman.serving.workers.calls import call_server, load
from dragoman.serving.workers.remote_translator import TranslatorDescription


@final
@dataclass(frozen=True)
class ServiceDescription:
    """All that a worker needs in order to translate as the server does."""

    translators: tuple[tuple[TranslatorDescription, frozenset[LanguagePair], Mapping[str, str]], ...]
    """Translators with their language pairs, and their own codes by those of clients."""
    glossaries: GlossaryChoice
    placeholders: ProtectedTexts

    @classmethod
    def of(cls, store: ModelStore, glossaries: GlossaryChoice, placeholders: ProtectedTexts) -> Self:
        """Describe the translators of a store."""
        translators = [
            (TranslatorDescription.of(one.name, one.model), one.pairs, one.own_codes)
            for one in store.models
            if isinstance(one.model, Translator)
        ]
        return cls(tuple(translators), glossaries, placeholders)

    def build(self) -> TranslationService:
        """Return a service whose translators decode in the server."""
        models = [
            ServedModel(one.name, Path(), one.build(), (), pairs, own_codes)
            for one, pairs, own_codes in self.translators
        ]
        return TranslationService(ModelStore.of(models), self.glossaries, placeholders=self.placeholders)


_services: dict[int, TranslationService] = {}
"""The service of this worker, by the version of the server's models."""


def service_of(version: int) -> TranslationService:
    """Return the service of a version, which is asked for once."""
    if version not in _services:
        description: ServiceDescription = load(call_server("describe"))
        _services.clear()
        _services[version] = description.build()
    return _services[version]


def translate(version: int, request: TranslationRequest) -> list[TranslatedText]:
    """Return the translations of the texts of a request."""
    return asyncio.run(service_of(version).translate(request))


def detect(version: int, texts: Sequence[str], target: str | None) -> list[Sequence[DetectedLanguage]]:
    """Return the languages that each text may be in."""
    return asyncio.run(service_of(version).detect(texts, target))


@final
@dataclass(frozen=True)
class TranslatedDocument:
    """Translated file, and counts of its translations."""

    content: bytes
    model_name: str = ""
    """Name of the model that wrote the translations; empty if there are none."""
    characters: int = 0
    """Characters of the translations."""
    terms: int = 0
    placeholders: int = 0
    unmet: int = 0
    needs_review: int = 0
    """Texts with warnings, which the file marks where its format can."""


def translate_document(version: int, filename: str, content: bytes, request: TranslationRequest) -> TranslatedDocument:
    """Return a file whose texts are translated; `request` has their languages."""
    service = service_of(version)
    target = service.store.find_target(request.target)
    document = read_document(filename, content, source=request.source, target=target)
    text = text_to_translate(document, FileOptions())
    call_server("begin", len(text))
    if request.source is None and not text:
        return TranslatedDocument(content)
    if request.source is None:
        [[detected, *_]] = asyncio.run(service.detect([text], target))
        request = replace(request, source=detected.code)
    if service.store.find_pair(request.source or "", target)[0] == target:
        if request.has_to_differ:
            raise invalid("Source and target language are equal.", "target_lang")
        return TranslatedDocument(content)
    translation, models = service.translate_document(document, replace(request, is_file=True))
    counts = translation.report.counts
    return TranslatedDocument(
        translation.content,
        models[-1],
        sum(len(segment.text) for segment in translation.report.segments),
        counts["terms"],
        counts["placeholders"],
        counts["unmet"],
        counts["needs_review"],
    )
