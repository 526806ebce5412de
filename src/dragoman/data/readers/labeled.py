"""Texts with one label each: `label text` lines, tab-separated columns, or JSON objects."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, assert_never

from pydantic import Field, model_validator

from dragoman.data.readers.json_fields import check_text, get_text, get_value, read_objects
from dragoman.data.readers.line_reader import (
    CorpusFile,
    Encoding,
    ReadWarnings,
    check_columns_differ,
    read_lines,
    split_columns,
)
from dragoman.errors import DataError


@dataclass(frozen=True, slots=True)
class LabeledText:
    """Text, label, and their line (from 1) in the corpus."""

    text: str
    label: str
    line: int


class LabeledLines(CorpusFile):
    """A file with a label, a space and a text on each line, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["lines"] = "lines"
    label_separator: str | None = Field(default=None, min_length=1)
    """Character that ends a label before its space: `:` reads `LOC:city Where is …?` as `LOC`."""
    encoding: Encoding = "utf-8"
    """Character encoding of the file; TREC is in Latin-1."""


class LabeledTsv(CorpusFile):
    """A file of tab-separated columns, plain or .gz, .bz2, .xz, .zst; quotation marks have no special meaning."""

    kind: Literal["tsv"] = "tsv"
    text_column: int = Field(default=1, ge=1)
    """Column of the text, from 1."""
    label_column: int = Field(default=2, ge=1)
    """Column of the label, from 1."""
    header: bool = False
    """Whether the first line names the columns."""
    encoding: Encoding = "utf-8"
    """Character encoding of the file."""

    _check_columns = model_validator(mode="after")(check_columns_differ)


class LabeledJsonl(CorpusFile):
    """A file of JSON objects, one per line, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["jsonl"] = "jsonl"
    text_field: str = "text"
    """Field of the text."""
    label_field: str = "label"
    """Field of the label, a text or a whole number."""


LabeledCorpus = Annotated[LabeledLines | LabeledTsv | LabeledJsonl, Field(discriminator="kind")]


def read_labeled(corpus: LabeledCorpus, warnings: ReadWarnings | None = None) -> Iterator[LabeledText]:
    """Yield the labeled texts of a corpus; blank lines are skipped and counted in `warnings`.

    Raises DataError, with file, line and remedy, if the corpus is unreadable or a label is empty.
    """
    warnings = ReadWarnings() if warnings is None else warnings
    match corpus:
        case LabeledLines():
            examples = _read_lines(corpus, warnings)
        case LabeledTsv():
            examples = _read_table(corpus, warnings)
        case LabeledJsonl():
            examples = _read_json_lines(corpus, warnings)
        case _:
            assert_never(corpus)
    for example in examples:
        if not example.label:
            raise DataError(f"{corpus.path}:{example.line}: the label is empty; correct or remove the line")
        yield example


def _read_lines(corpus: LabeledLines, warnings: ReadWarnings) -> Iterator[LabeledText]:
    for number, line in read_lines(corpus.path, warnings, encoding=corpus.encoding):
        if not line.strip():
            continue
        label, _, text = line.strip().partition(" ")
        if corpus.label_separator is not None:
            label = label.partition(corpus.label_separator)[0]
        if not text.strip():
            raise DataError(
                f"{corpus.path}:{number}: no text after the label {label!r}; "
                "a line is a label, a space and a text. Correct or remove it"
            )
        yield LabeledText(text.strip(), label, number)


def _read_table(corpus: LabeledTsv, warnings: ReadWarnings) -> Iterator[LabeledText]:
    needed = max(corpus.text_column, corpus.label_column)
    for number, line in read_lines(corpus.path, warnings, encoding=corpus.encoding):
        if not line.strip() or (number == 1 and corpus.header):
            continue
        columns = split_columns(line, needed, where=f"{corpus.path}:{number}", keys=("text_column", "label_column"))
        yield LabeledText(columns[corpus.text_column - 1], columns[corpus.label_column - 1].strip(), number)


def _read_json_lines(corpus: LabeledJsonl, warnings: ReadWarnings) -> Iterator[LabeledText]:
    for number, where, row in read_objects(corpus.path, warnings):
        label: Any = get_value(row, corpus.label_field, where)
        # Data sets often number their labels.
        name = str(label) if type(label) is int else check_text(label, corpus.label_field, where).strip()
        yield LabeledText(get_text(row, corpus.text_field, where), name, number)
