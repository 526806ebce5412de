"""Sentences with one label per word: columns as in the CoNLL tasks, or JSON objects."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Literal, assert_never

from pydantic import Field

from dragoman.data.readers.json_fields import check_text, get_list, read_objects
from dragoman.data.readers.line_reader import CorpusFile, Encoding, ReadWarnings, read_lines, require_columns
from dragoman.errors import DataError

_REMEDY = (
    "a line is a word and its label with white space between, and sentences are separated by blank lines. "
    "Set word_column and label_column"
)
DOCUMENT_START = "-DOCSTART-"
"""Only word of the sentence that begins a document in CoNLL 2003."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """Words, one label per word, and the line (from 1) where the sentence begins."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    line: int


class TaggedColumns(CorpusFile):
    """A file with a word and its label on each line and blank lines between sentences, plain or compressed.

    Columns are separated by tabs if a line holds one, else by white space. `-DOCSTART-` sentences are skipped.
    """

    kind: Literal["columns"] = "columns"
    word_column: int = Field(default=1, ge=1)
    """Column of the word, from 1."""
    label_column: int | None = Field(default=None, ge=1)
    """Column of the label, from 1; by default the last."""
    comment: str | None = Field(default=None, min_length=1)
    """Prefix of comment lines, such as `#` in CoNLL-U."""
    encoding: Encoding = "utf-8"
    """Character encoding of the file."""


class TaggedJsonl(CorpusFile):
    """A file of JSON objects with a list of words and a list of labels, one object per line, plain or compressed."""

    kind: Literal["jsonl"] = "jsonl"
    words_field: str = "words"
    """Field of the words."""
    labels_field: str = "labels"
    """Field of the labels."""


TaggedCorpus = Annotated[TaggedColumns | TaggedJsonl, Field(discriminator="kind")]


def read_tagged(corpus: TaggedCorpus, warnings: ReadWarnings | None = None) -> Iterator[TaggedSentence]:
    """Yield the sentences of a corpus. Raises DataError, with file, line and remedy, if it is unreadable."""
    warnings = ReadWarnings() if warnings is None else warnings
    match corpus:
        case TaggedColumns():
            return _read_columns(corpus, warnings)
        case TaggedJsonl():
            return _read_json_lines(corpus, warnings)
        case _:
            assert_never(corpus)


def _read_columns(corpus: TaggedColumns, warnings: ReadWarnings) -> Iterator[TaggedSentence]:
    numbered = read_lines(corpus.path, warnings, encoding=corpus.encoding)
    for blank, lines in groupby(numbered, key=lambda line: not line[1].strip()):
        if blank:
            continue
        rows = [
            (*_word_and_label(line, corpus, where=f"{corpus.path}:{number}"), number)
            for number, line in lines
            if corpus.comment is None or not line.startswith(corpus.comment)
        ]
        words, labels, numbers = zip(*rows, strict=True) if rows else ((), (), ())
        if words and words != (DOCUMENT_START,):
            yield TaggedSentence(words, labels, numbers[0])


def _word_and_label(line: str, corpus: TaggedColumns, *, where: str) -> tuple[str, str]:
    columns = line.split("\t") if "\t" in line else line.split()
    last = len(columns) if corpus.label_column is None else corpus.label_column
    needed = max(corpus.word_column + (corpus.label_column is None), last)
    require_columns(columns, needed, where=where, remedy=_REMEDY)
    word, label = columns[corpus.word_column - 1].strip(), columns[last - 1].strip()
    if not word or not label:
        raise DataError(f"{where}: the {'label' if word else 'word'} is empty; correct or remove the line")
    return word, label


def _read_json_lines(corpus: TaggedJsonl, warnings: ReadWarnings) -> Iterator[TaggedSentence]:
    for number, where, row in read_objects(corpus.path, warnings):
        words, labels = (
            tuple(check_text(value, field, where) for value in get_list(row, field, where))
            for field in (corpus.words_field, corpus.labels_field)
        )
        if len(words) != len(labels):
            raise DataError(f"{where}: {len(words)} words but {len(labels)} labels; give one label per word")
        if not all(word.strip() for word in words) or not all(labels):
            raise DataError(f"{where}: a word or a label is empty; correct or remove the line")
        if words:
            yield TaggedSentence(words, labels, number)
