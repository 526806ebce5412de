"""Recognition of the format of a document by its name and content, and its reading."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from dragoman.data.documents.archives.epub import Book
from dragoman.data.documents.archives.ooxml import OfficeDocument
from dragoman.data.documents.archives.opendocument import OpenDocument
from dragoman.data.documents.archives.spreadsheet import Workbook
from dragoman.data.documents.bilingual.multilingual_xml import open_multilingual
from dragoman.data.documents.bilingual.po import open_po
from dragoman.data.documents.bilingual.qt_linguist import open_ts
from dragoman.data.documents.bilingual.string_catalog import open_string_catalog
from dragoman.data.documents.bilingual.xliff import open_xliff
from dragoman.data.documents.document import MAX_BYTES, Document
from dragoman.data.documents.string_tables.columns import open_columns
from dragoman.data.documents.string_tables.json_strings import open_json
from dragoman.data.documents.string_tables.key_value_strings import open_properties, open_strings
from dragoman.data.documents.string_tables.string_resources import open_android, open_resx, open_stringsdict
from dragoman.data.documents.string_tables.yaml_strings import open_yaml
from dragoman.data.documents.texts.plain_text import PlainText
from dragoman.data.documents.texts.subtitles import Subtitles
from dragoman.data.documents.web.html_page import HtmlPage
from dragoman.data.documents.web.markdown import Markdown
from dragoman.errors import DataError, describe_unreadable, shorten

DocumentFormat = Literal[
    "po", "xliff", "tmx", "tbx", "android", "strings", "stringsdict", "xcstrings", "resx", "ts", "properties",
    "json", "yaml", "csv",
    "html", "text", "srt", "vtt", "docx", "pptx", "xlsx", "odt", "odp", "ods", "epub", "markdown",
]  # fmt: skip
"""Formats of documents."""

ENDINGS: dict[str, DocumentFormat] = {
    ".po": "po",
    ".pot": "po",
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), "xliff"),
    ".tmx": "tmx",
    ".tbx": "tbx",
    ".strings": "strings",
    ".stringsdict": "stringsdict",
    ".xcstrings": "xcstrings",
    ".resx": "resx",
    ".properties": "properties",
    **dict.fromkeys((".json", ".arb"), "json"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".txt", ".text"), "text"),
    ".srt": "srt",
    ".vtt": "vtt",
    **dict.fromkeys((".docx", ".docm", ".dotx"), "docx"),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx"), "pptx"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx"), "xlsx"),
    **dict.fromkeys((".odt", ".ott"), "odt"),
    **dict.fromkeys((".odp", ".otp"), "odp"),
    **dict.fromkeys((".ods", ".ots"), "ods"),
    ".epub": "epub",
    **dict.fromkeys((".md", ".markdown"), "markdown"),
}
"""Format of the files with each ending; other formats are recognized by their content."""
_Open = Callable[[bytes, str, str | None, str | None], Document]
"""Reads the content of a file with its name, the source language and the target language."""
_OPENERS: dict[DocumentFormat, _Open] = {
    "po": lambda content, name, _, target: open_po(content, name, target_language=target),
    "xliff": lambda content, name, _, target: open_xliff(content, name, target_language=target),
    "tmx": open_multilingual,
    "tbx": open_multilingual,
    "android": lambda content, name, _, target: open_android(content, name, target_language=target),
    "strings": lambda content, name, *_: open_strings(content, name),
    "stringsdict": lambda content, name, _, target: open_stringsdict(content, name, target_language=target),
    "xcstrings": lambda content, name, _, target: open_string_catalog(content, name, target),
    "resx": lambda content, name, *_: open_resx(content, name),
    "ts": lambda content, name, _, target: open_ts(content, name, target_language=target),
    "properties": lambda content, name, *_: open_properties(content, name),
    "json": lambda content, name, _, target: open_json(content, name, target_language=target),
    "yaml": lambda content, name, _, target: open_yaml(content, name, target_language=target),
    "csv": open_columns,
    "html": lambda content, name, _, target: HtmlPage(content, name=name, target_language=target),
    "text": lambda content, name, *_: PlainText(content, name=name),
    "srt": lambda content, name, *_: Subtitles(content, format="srt", name=name),
    "vtt": lambda content, name, *_: Subtitles(content, format="vtt", name=name),
    "docx": lambda content, name, *_: OfficeDocument(content, format="docx", name=name),
    "pptx": lambda content, name, *_: OfficeDocument(content, format="pptx", name=name),
    "xlsx": lambda content, name, *_: Workbook(content, name=name),
    "odt": lambda content, name, *_: OpenDocument(content, format="odt", name=name),
    "odp": lambda content, name, *_: OpenDocument(content, format="odp", name=name),
    "ods": lambda content, name, *_: OpenDocument(content, format="ods", name=name),
    "markdown": lambda content, name, *_: Markdown(content, name=name),
    "epub": lambda content, name, _, target: Book(content, name=name, target_language=target),
}
SNIFFED = 4096
"""Bytes in which a format is recognized."""
_CONTENTS: dict[DocumentFormat, re.Pattern[bytes]] = {
    "po": re.compile(rb'^msgid\s+"', re.MULTILINE),
    "android": re.compile(rb"<resources[\s>]"),
    "xliff": re.compile(rb"<xliff\s"),
    "tmx": re.compile(rb"<tmx\s"),
    "tbx": re.compile(rb"<(martif|tbx)\s"),
    "ts": re.compile(rb"<TS[\s>]"),
}
"""What a file of each format has at its beginning."""


def open_document(
    content: Path | bytes,
    *,
    name: str | None = None,
    format_: DocumentFormat | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Document:
    """Read a document, in a format that is given, or recognized by the name and the content of the file.

    Bytes have the `name` of their file. The languages choose the texts of a file with several, and the target
    language is written where the format says it. Raises DataError if the format is unknown, the file is damaged or
    larger than `MAX_BYTES`, or contains what a hostile file would.
    """
    name = name if name is not None else str(content) if isinstance(content, Path) else "document"
    if isinstance(content, Path):
        content = _read(content)
    if len(content) > MAX_BYTES:
        raise DataError(f"{name}: has {len(content):,} bytes; a document has at most {MAX_BYTES:,}. Split the file.")
    kind = recognize_document(content, name) if format_ is None else format_
    return _OPENERS[kind](content, name, source_language, target_language)


def recognize_document(content: bytes, name: str) -> DocumentFormat:
    """Return the format of a document. Raises DataError, which lists the formats, if it has none of them."""
    ending = Path(name).suffix.lower()
    if ending in ENDINGS:
        return ENDINGS[ending]
    start = content[:SNIFFED].replace(b"\0", b"")  # of UTF-16
    is_xml = start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\xff\xfe \t\r\n").startswith(b"<") and not start.startswith(
        b"<?php"
    )
    for kind, pattern in _CONTENTS.items():
        if pattern.search(start) and (is_xml or kind == "po"):
            return kind
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
