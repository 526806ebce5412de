"""Texts of files: read, translated, and filled into the file."""

import re
from dataclasses import replace
from pathlib import PurePath
from typing import final

from dragoman.data.documents.document import Document, Unit, UnitTranslation
from dragoman.data.documents.recognize import ENDINGS, open_document
from dragoman.errors import DataError
from dragoman.serving.http.errors import invalid
from dragoman.serving.translation.service import TextFormat, TranslatedText, TranslationRequest, TranslationService

FORMATS = tuple(ENDINGS)
"""Endings of the files that are translated."""
_TAG = re.compile(r"<[^<>]*>")


def check_filename(filename: str) -> None:
    """Raise RequestError if the ending of a file is that of no format."""
    if PurePath(PurePath(filename).name).suffix.lower() not in FORMATS:
        raise invalid(f"Invalid file: its type is not supported. Send one of {', '.join(FORMATS)}.", "file")


def read_document(filename: str, content: bytes, target: str) -> Document:
    """Return the texts of a file as units. Raises RequestError if it cannot be translated."""
    try:
        return open_document(content, name=PurePath(filename).name, target_language=target)
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
