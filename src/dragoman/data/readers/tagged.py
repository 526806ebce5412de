"""Sentences with a label for every word: columns as in the CoNLL tasks, or JSON objects."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, assert_never

from pydantic import Field

from dragoman.config import Config
from dragoman.data.readers.json_fields import check_text, get_list, parse_object
from dragoman.data.readers.text_lines import Encoding, ReadWarnings, read_lines
from dragoman.errors import DataError

DOCUMENT_START = "-DOCSTART-"
"""The word that stands alone where a document of CoNLL 2003 begins."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence, a label for each, and the line (from 1) where the sentence begins."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    line: int


class TaggedColumns(Config):
    """A file with a word and its label on each line and a blank line between sentences, plain or .gz, .bz2, .xz, .zst.

    Columns are separated by tabs where a line holds one, else by white space. Sentences of `-DOCSTART-` alone are
    passed over.
    """

    kind: Literal["columns"] = "columns"

    path: Path
    """The file."""

    word_column: int = Field(1, ge=1)
    """The column of the word, from 1."""

    label_column: int | None = Field(None, ge=1)
    """The column of the label, from 1; without it the last."""

    comment: str | None = Field(None, min_length=1)
    """What a line begins with that is no word, such as `#` in CoNLL-U."""

    encoding: Encoding = "utf-8"
    """How the file writes its characters."""


class TaggedJsonl(Config):
    """A file of JSON objects with a list of words and one of labels, an object a line; .gz, .bz2, .xz and .zst too."""

    kind: Literal["jsonl"] = "jsonl"

    path: Path
    """The file."""

    words_field: str = "words"
    """The field of the words."""

    labels_field: str = "labels"
    """The field of their labels."""


TaggedCorpus = Annotated[TaggedColumns | TaggedJsonl, Field(discriminator="kind")]


def read_tagged(corpus: TaggedCorpus, repairs: ReadWarnings | None = None) -> Iterator[TaggedSentence]:
    """The sentences of a corpus, streamed. Raises DataError with file, line and remedy where it cannot be read."""
    repairs = ReadWarnings() if repairs is None else repairs
    match corpus:
        case TaggedColumns():
            return _read_columns(corpus, repairs)
        case TaggedJsonl():
            return _read_json_lines(corpus, repairs)
        case _:
            assert_never(corpus)


def _read_columns(corpus: TaggedColumns, repairs: ReadWarnings) -> Iterator[TaggedSentence]:
    words: list[str] = []
    labels: list[str] = []
    begin = number = 0
    for number, line in read_lines(corpus.path, repairs, encoding=corpus.encoding):
        if not line.strip():
            yield from _sentence(words, labels, begin)
            words, labels = [], []
            continue
        if corpus.comment is not None and line.startswith(corpus.comment):
            continue
        word, label = _word_and_label(line, corpus, where=f"{corpus.path}:{number}")
        begin = begin if words else number
        words.append(word)
        labels.append(label)
    yield from _sentence(words, labels, begin)


def _sentence(words: list[str], labels: list[str], line: int) -> Iterator[TaggedSentence]:
    """The sentence, unless there is none."""
    if words and words != [DOCUMENT_START]:
        yield TaggedSentence(tuple(words), tuple(labels), line)


def _word_and_label(line: str, corpus: TaggedColumns, *, where: str) -> tuple[str, str]:
    columns = line.split("\t") if "\t" in line else line.split()
    last = len(columns) if corpus.label_column is None else corpus.label_column
    needed = max(corpus.word_column + (corpus.label_column is None), last)
    if len(columns) < needed:
        has = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
        raise DataError(
            f"{where}: {has} where column {needed} is needed; a line is a word and its label with white space between, "
            "and sentences are separated by blank lines. Set word_column and label_column"
        )
    word, label = columns[corpus.word_column - 1].strip(), columns[last - 1].strip()
    if not word or not label:
        raise DataError(f"{where}: the {'label' if word else 'word'} is empty; mend or remove the line")
    return word, label


def _read_json_lines(corpus: TaggedJsonl, repairs: ReadWarnings) -> Iterator[TaggedSentence]:
    for number, line in read_lines(corpus.path, repairs):
        if not line.strip():
            continue
        where = f"{corpus.path}:{number}"
        row = parse_object(line, where)
        words, labels = (
            tuple(check_text(value, field, where) for value in get_list(row, field, where))
            for field in (corpus.words_field, corpus.labels_field)
        )
        if len(words) != len(labels):
            raise DataError(f"{where}: {len(words)} words but {len(labels)} labels; give one for each")
        if not all(word.strip() for word in words) or not all(labels):
            raise DataError(f"{where}: a word or a label is empty; mend or remove the line")
        if words:
            yield TaggedSentence(words, labels, number)
