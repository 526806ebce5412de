"""Running text: documents out of a text file, JSON objects or labelled texts, streamed in passages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, assert_never

from pydantic import Field

from dragoman.config import Config
from dragoman.data.readers.json_fields import get_text, parse_object
from dragoman.data.readers.labeled import LabeledLines, LabeledTsv, read_labeled
from dragoman.data.readers.text_lines import ReadWarnings, read_lines

PASSAGE_SIZE = 2**16
"""Characters after which a passage ends with the next line that does."""

Line = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of whole lines of a document, line feeds included; documents that are longer have several.

    The next passage of the same document begins with a line that holds a letter or digit.
    """

    text: str
    line: int
    """The line of the file, from 1, where it begins."""
    is_first: bool
    """Whether it is the first of its document."""


class TextFile(Config):
    """A text file, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["text"] = "text"

    path: Path
    """The file."""

    documents: Literal["file", "blank_line", "line"] = "file"
    """What ends a document: the end of the file, a blank line, or every line."""


class TextJsonl(Config):
    """A file of JSON objects, one document a line, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["jsonl"] = "jsonl"

    path: Path
    """The file."""

    text_field: str = "text"
    """The field of the text."""


TextCorpus = Annotated[TextFile | TextJsonl | LabeledLines | LabeledTsv, Field(discriminator="kind")]
"""Of labelled texts the label is passed over, and each text is a document."""


def read_texts(corpus: TextCorpus, repairs: ReadWarnings | None = None) -> Iterator[Passage]:
    """The documents of a corpus, streamed in passages; what was mended on the way is counted in `repairs`.

    A file is one document with all its white space, a line feed after its last line included. Other documents have no
    line feed at their end, and those without text are passed over. Raises DataError with file, line and remedy where
    the corpus cannot be read as it is.
    """
    repairs = ReadWarnings() if repairs is None else repairs
    match corpus:
        case TextFile(path=path, documents="file"):
            return _passages(read_lines(path, repairs))
        case TextFile(path=path, documents="blank_line"):
            return _between_blank_lines(read_lines(path, repairs))
        case TextFile(path=path):
            return (Passage(text, number, is_first=True) for number, text in read_lines(path, repairs) if text.strip())
        case TextJsonl():
            return _from_objects(corpus, repairs)
        case LabeledLines() | LabeledTsv():
            found = read_labeled(corpus, repairs)
            return (Passage(one.text, one.line, is_first=True) for one in found if one.text.strip())
        case _:
            assert_never(corpus)


def _between_blank_lines(numbered: Iterator[Line]) -> Iterator[Passage]:
    for blank, document in groupby(numbered, key=lambda line: not line[1].strip()):
        if not blank:
            yield from _without_last_line_feed(_passages(document))


def _from_objects(corpus: TextJsonl, repairs: ReadWarnings) -> Iterator[Passage]:
    for number, row in read_lines(corpus.path, repairs):
        if not row.strip():
            continue
        where = f"{corpus.path}:{number}"
        text = get_text(parse_object(row, where), corpus.text_field, where)
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
            repairs.record(corpus.path, "crlf", number)
        if text.strip():
            document = ((number, line) for line in text.split("\n"))
            yield from _without_last_line_feed(_passages(document))


def _passages(numbered: Iterable[Line]) -> Iterator[Passage]:
    """The passages of one document."""
    held: list[str] = []
    first, size, begins = 0, 0, True
    for number, line in numbered:
        if size >= PASSAGE_SIZE and any(map(str.isalnum, line)):
            yield Passage("".join(held), first, begins)
            held, size, begins = [], 0, False
        if not held:
            first = number
        held.append(f"{line}\n")
        if size or line.strip():  # no passage is blank
            size += len(line) + 1
    if held:
        yield Passage("".join(held), first, begins)


def _without_last_line_feed(passages: Iterator[Passage]) -> Iterator[Passage]:
    before = None
    for passage in passages:
        if before is not None:
            yield before
        before = passage
    if before is not None:
        yield Passage(before.text.removesuffix("\n"), before.line, before.is_first)
