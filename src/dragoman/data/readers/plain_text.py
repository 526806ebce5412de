"""Running text: documents from a text file, JSON objects or labeled texts, streamed in passages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, assert_never

from pydantic import Field

from dragoman.data.readers.json_fields import get_text, read_objects
from dragoman.data.readers.labeled import LabeledLines, LabeledTsv, read_labeled
from dragoman.data.readers.line_reader import CorpusFile, ReadWarnings, read_lines
from dragoman.errors import DataError

PASSAGE_SIZE = 2**16
"""Characters after which a passage ends at the next line break."""
MAX_PASSAGE_SIZE = 2**25
"""Characters above which a passage that does not end is refused, because it is in memory: two of the longest lines."""

Line = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive whole lines of a document, line feeds included; long documents have several passages.

    Each further passage of a document begins with a line that holds a letter or digit.
    """

    text: str
    line: int
    """First line of the passage in the file, from 1."""
    is_first: bool
    """Whether the passage begins a document."""


class TextFile(CorpusFile):
    """A text file, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["text"] = "text"
    documents: Literal["file", "blank_line", "line"] = "file"
    """End of a document: the end of the file, a blank line, or every line."""


class TextJsonl(CorpusFile):
    """A file of JSON objects, one document per line, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["jsonl"] = "jsonl"
    text_field: str = "text"
    """Field of the text."""


TextCorpus = Annotated[TextFile | TextJsonl | LabeledLines | LabeledTsv, Field(discriminator="kind")]
"""Labels of labeled texts are ignored; each text is a document."""


def read_texts(corpus: TextCorpus, warnings: ReadWarnings | None = None) -> Iterator[Passage]:
    """Yield the documents of a corpus in passages, and count repairs in `warnings`.

    A file that is one document keeps its white space, the final line feed included. Other documents end without a line
    feed, and blank documents are skipped. Raises DataError, with file, line and remedy, if the corpus is unreadable.
    """
    warnings = ReadWarnings() if warnings is None else warnings
    match corpus:
        case TextFile(path=path, documents="file"):
            return _passages(read_lines(path, warnings), path)
        case TextFile(path=path, documents="blank_line"):
            return _between_blank_lines(read_lines(path, warnings), path)
        case TextFile(path=path):
            return (Passage(text, number, is_first=True) for number, text in read_lines(path, warnings) if text.strip())
        case TextJsonl():
            return _from_objects(corpus, warnings)
        case LabeledLines() | LabeledTsv():
            examples = read_labeled(corpus, warnings)
            return (Passage(example.text, example.line, is_first=True) for example in examples if example.text.strip())
        case _:
            assert_never(corpus)


def _between_blank_lines(numbered: Iterator[Line], path: Path) -> Iterator[Passage]:
    for blank, document in groupby(numbered, key=lambda line: not line[1].strip()):
        if not blank:
            yield from _without_last_line_feed(_passages(document, path))


def _from_objects(corpus: TextJsonl, warnings: ReadWarnings) -> Iterator[Passage]:
    for number, where, row in read_objects(corpus.path, warnings):
        text = get_text(row, corpus.text_field, where)
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
            warnings.record(corpus.path, "crlf", number)
        if text.strip():
            yield from _without_last_line_feed(_passages(((number, line) for line in text.split("\n")), corpus.path))


def _passages(numbered: Iterable[Line], path: Path) -> Iterator[Passage]:
    """Yield the passages of one document. Raises DataError if a passage has no place where it could end."""
    lines: list[str] = []
    first, size, length, begins = 0, 0, 0, True
    for number, line in numbered:
        if size >= PASSAGE_SIZE and any(map(str.isalnum, line)):
            yield Passage("".join(lines), first, begins)
            lines, size, length, begins = [], 0, 0, False
        if not lines:
            first = number
        lines.append(f"{line}\n" if line else "\n")  # one object for all empty lines
        length += len(line) + 1
        if length > MAX_PASSAGE_SIZE:
            raise DataError(
                f"{path}:{number}: lines {first:,} to {number:,} have {length:,} characters and no place to cut them: "
                "they are blank, or without letters and digits; remove them"
            )
        if size or line.strip():  # no passage is blank
            size += len(line) + 1
    if lines:
        yield Passage("".join(lines), first, begins)


def _without_last_line_feed(passages: Iterator[Passage]) -> Iterator[Passage]:
    previous = next(passages)
    for passage in passages:
        yield previous
        previous = passage
    yield replace(previous, text=previous.text.removesuffix("\n"))
