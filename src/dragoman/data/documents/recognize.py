"""Recognition of the format of a document by its name and content, and its reading."""

import re
from pathlib import Path
from typing import Literal, assert_never, get_args

from dragoman.data.documents.document import MAX_BYTES, Document
from dragoman.data.documents.po import open_po
from dragoman.errors import DataError, describe_unreadable, shorten

DocumentFormat = Literal["po"]
"""Formats of documents."""

ENDINGS: dict[str, DocumentFormat] = {
    ".po": "po",
    ".pot": "po",
}
"""Format of the files with each ending; others are told by their content."""
SNIFFED = 4096
"""Bytes in which a format is recognized."""
_PO = re.compile(rb'^msgid\s+"', re.MULTILINE)


def open_document(
    content: Path | bytes,
    *,
    name: str | None = None,
    format_: DocumentFormat | None = None,
    target_language: str | None = None,
) -> Document:
    """Read a document, in a format that is given, or recognized by the name and the content of the file.

    Bytes have the `name` of their file. The target language is written where the format says the language of a file.
    Raises DataError if the format is unknown, the file is damaged or larger than `MAX_BYTES`, or contains what a
    hostile file would.
    """
    name = name if name is not None else str(content) if isinstance(content, Path) else "document"
    if isinstance(content, Path):
        content = _read(content)
    if len(content) > MAX_BYTES:
        raise DataError(f"{name}: has {len(content):,} bytes; a document has at most {MAX_BYTES:,}. Split the file.")
    kind = recognize_document(content, name) if format_ is None else format_
    match kind:
        case "po":
            return open_po(content, name, target_language=target_language)
        case _:
            assert_never(kind)


def recognize_document(content: bytes, name: str) -> DocumentFormat:
    """Return the format of a document. Raises DataError, which lists the formats, if it has none of them."""
    ending = Path(name).suffix.lower()
    if ending in ENDINGS:
        return ENDINGS[ending]
    if _PO.search(content[:SNIFFED]):
        return "po"
    raise DataError(
        f"{name}: ending {shorten(ending)} is not the one of a known document format: "
        f"{', '.join(get_args(DocumentFormat))}. Convert the file, or translate plain text."
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(describe_unreadable(path, error)) from error
