"""Running text: documents out of a text file, JSON objects or labelled texts, streamed in passages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, assert_never

from pydantic import Field

from dragoman.config import Config
from dragoman.data.readers.json_fields import parse_object, text_of
from dragoman.data.readers.labeled import LabelledLines, LabelledTable, read_labelled
from dragoman.data.readers.repairs import Repairs
from dragoman.data.readers.text_lines import lines

PASSAGE = 2**16
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
    begins: bool
    """Whether it is the first of its document."""


class Text(Config):
    """A text file, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["text"] = "text"

    path: Path
    """The file."""

    documents: Literal["file", "blank_line", "line"] = "file"
    """What ends a document: the end of the file, a blank line, or every line."""


class JsonTexts(Config):
    """A file of JSON objects, one document a line, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["jsonl"] = "jsonl"

    path: Path
    """The file."""

    text_field: str = "text"
    """The field of the text."""


TextCorpus = Annotated[Text | JsonTexts | LabelledLines | LabelledTable, Field(discriminator="kind")]
"""Of labelled texts the label is passed over, and each text is a document."""


def read_texts(corpus: TextCorpus, repairs: Repairs | None = None) -> Iterator[Passage]:
    """The documents of a corpus, streamed in passages; what was mended on the way is counted in `repairs`.

    A file is one document with all its white space, a line feed after its last line included. Other documents have no
    line feed at their end, and those without text are passed over. Raises DataError with file, line and remedy where
    the corpus cannot be read as it is.
    """
    repairs = Repairs() if repairs is None else repairs
    match corpus:
        case Text(path=path, documents="file"):
            return _passages(lines(path, repairs))
        case Text(path=path, documents="blank_line"):
            return _between_blank_lines(lines(path, repairs))
        case Text(path=path):
            return (Passage(text, number, begins=True) for number, text in lines(path, repairs) if text.strip())
        case JsonTexts():
            return _from_objects(corpus, repairs)
        case LabelledLines() | LabelledTable():
            found = read_labelled(corpus, repairs)
            return (Passage(one.text, one.line, begins=True) for one in found if one.text.strip())
        case _:
            assert_never(corpus)


def _between_blank_lines(numbered: Iterator[Line]) -> Iterator[Passage]:
    for blank, document in groupby(numbered, key=lambda line: not line[1].strip()):
        if not blank:
            yield from _without_last_line_feed(_passages(document))


def _from_objects(corpus: JsonTexts, repairs: Repairs) -> Iterator[Passage]:
    for number, row in lines(corpus.path, repairs):
        if not row.strip():
            continue
        where = f"{corpus.path}:{number}"
        text = text_of(parse_object(row, where), corpus.text_field, where)
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
            repairs.note(corpus.path, "crlf", number)
        if text.strip():
            document = ((number, line) for line in text.split("\n"))
            yield from _without_last_line_feed(_passages(document))


def _passages(numbered: Iterable[Line]) -> Iterator[Passage]:
    """The passages of one document."""
    held: list[str] = []
    first, size, begins = 0, 0, True
    for number, line in numbered:
        if size >= PASSAGE and any(map(str.isalnum, line)):
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
        yield Passage(before.text.removesuffix("\n"), before.line, before.begins)
