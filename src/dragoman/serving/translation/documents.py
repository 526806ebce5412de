"""Files of clients: which are accepted, how they are read, and their translators."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Unpack, final

from dragoman.data.documents.document import Document
from dragoman.data.documents.line_breaks import has_letters
from dragoman.data.documents.recognize import ENDINGS, open_document
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import DataError
from dragoman.inference import TranslationResult
from dragoman.inference.translation_options import StreamOptions
from dragoman.runs.translate_file import FileOptions
from dragoman.serving.http.errors import invalid
from dragoman.serving.served_models import Hop
from dragoman.serving.translation.terms import AppliedGlossary

FORMATS = tuple(ENDINGS)
"""Endings of the files that are translated."""
_TAG = re.compile(r"<[^<>]*>")


def check_filename(filename: str) -> None:
    """Raise RequestError if the ending of a file is that of no format."""
    if PurePath(PurePath(filename).name).suffix.lower() not in FORMATS:
        raise invalid(f"Invalid file: its type is not supported. Send one of {', '.join(FORMATS)}.", "file")


def read_document(filename: str, content: bytes, *, source: str | None, target: str) -> Document:
    """Return the texts of a file as units. Raises RequestError if it cannot be translated."""
    name = PurePath(filename).name
    try:
        return open_document(content, name=name, source_language=source, target_language=target)
    except DataError as error:
        raise invalid(str(error), "file") from error


def text_to_translate(document: Document, options: FileOptions) -> str:
    """Return the texts of a document that are translated, without their tags, one on each line."""
    texts = (_TAG.sub("", unit.source) for unit in document.units if options.selects(unit))
    return "\n".join(filter(has_letters, texts))


@final
@dataclass(frozen=True)
class PivotTranslator:
    """Translators of a route, one after the other, as one translator of texts."""

    hops: Sequence[Hop]
    glossaries: Sequence[AppliedGlossary | None]
    """Glossary of each model."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that reads the texts."""
        return self.hops[0].translator.tokenizer

    def translate_stream(
        self, texts: Iterable[str], config: DecodingConfig | None = None, **options: Unpack[StreamOptions]
    ) -> Iterator[TranslationResult]:
        """Yield the translations of texts; the second model reads the translations of the first."""
        results: Iterator[TranslationResult] = iter(())
        for hop, glossary in zip(self.hops, self.glossaries, strict=True):
            own: StreamOptions = {**options, "language": hop.pair[0]}
            own["source_language"], own["target_language"] = hop.languages
            if glossary is not None:
                own["glossary"], own["glossary_mode"] = glossary.glossary, glossary.mode
            results = hop.translator.translate_stream(texts, config, **own)
            if hop is not self.hops[-1]:
                texts = [result.text for result in results]
                options["context"] = None
        return results
