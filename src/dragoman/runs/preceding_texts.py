"""Texts before each unit of a document, for a model that was trained with document context."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dragoman.data.document_context import ContextForm
from dragoman.data.documents.document import Document, Unit
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import ConfigError

RUNNING_TEXT: Final = frozenset(
    ["html", "markdown", "text", "srt", "vtt", "docx", "pptx", "odt", "odp", "epub"]
)  # strings of user interfaces say little about each other
"""Formats whose units are read one after the other."""
_TAG = re.compile(r"<[^<>]*>")


def preceding_texts(
    document: Document, tokenizer: Tokenizer, options: Mapping[str, Any]
) -> list[tuple[str, ...]] | None:
    """Return the texts before each unit, as many as the model reads; None where it reads single sentences.

    `options` are those of a stream. Without `context` among them, running text has context. Raises ConfigError if
    context is asked for that the model does not read, or that is not of the document.
    """
    asked = options.get("context", "previous" if document.format in RUNNING_TEXT else None)
    if asked not in (None, "previous"):
        raise ConfigError("context: the texts of a file have those before them as context. Give 'previous' or None.")
    if asked is None or ("context" not in options and ContextForm.of(tokenizer) is None):
        return None
    form = ContextForm.require(tokenizer)
    texts = [_plain_text(unit) for unit in document.units]
    found: list[tuple[str, ...]] = []
    before: tuple[str, ...] = ()
    for text in texts:
        found.append(before)
        before = (*before, text)[-len(form.symbols) :] if text else before
    return found


def texts_with_context(texts: Sequence[str], before: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return what precedes each of the texts of a unit: what is before the unit, and its own texts before it."""
    return [(*before, *texts[:number]) for number in range(len(texts))]


def _plain_text(unit: Unit) -> str:
    text = unit.source if unit.markup is None else html.unescape(_TAG.sub("", unit.source))
    return " ".join(text.split())
