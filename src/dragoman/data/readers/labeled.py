"""Texts with a label each: `label text` a line, columns, or JSON objects."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.readers.json_fields import check_text, get_text, get_value, parse_object
from dragoman.data.readers.text_lines import Encoding, ReadWarnings, read_lines
from dragoman.errors import DataError


@dataclass(frozen=True, slots=True)
class LabeledText:
    """A text, its label, and the line (from 1) where they stand."""

    text: str
    label: str
    line: int


class LabeledLines(Config):
    """A file with a label, a space and a text on each line, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["lines"] = "lines"

    path: Path
    """The file."""

    label_separator: str | None = Field(None, min_length=1)
    """What ends a label before its space: `:` reads `LOC:city Where is …?` as `LOC`."""

    encoding: Encoding = "utf-8"
    """How the file writes its characters; TREC is in Latin-1."""


class LabeledTsv(Config):
    """A file of tab-separated columns, plain or .gz, .bz2, .xz, .zst; quotes have no meaning."""

    kind: Literal["tsv"] = "tsv"

    path: Path
    """The file."""

    text_column: int = Field(1, ge=1)
    """The column of the text, from 1."""

    label_column: int = Field(2, ge=1)
    """The column of the label, from 1."""

    header: bool = False
    """Whether the first line names the columns."""

    encoding: Encoding = "utf-8"
    """How the file writes its characters."""

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        if self.text_column == self.label_column:
            raise ValueError(f"text_column and label_column are both {self.text_column}; they must differ")
        return self


class LabeledJsonl(Config):
    """A file of JSON objects, one a line, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["jsonl"] = "jsonl"

    path: Path
    """The file."""

    text_field: str = "text"
    """The field of the text."""

    label_field: str = "label"
    """The field of the label, a text or a whole number."""


LabeledCorpus = Annotated[LabeledLines | LabeledTsv | LabeledJsonl, Field(discriminator="kind")]


def read_labeled(corpus: LabeledCorpus, repairs: ReadWarnings | None = None) -> Iterator[LabeledText]:
    """The texts of a corpus with their labels, streamed; blank lines are passed over, and counted in `repairs`.

    Raises DataError with file, line and remedy where the corpus cannot be read as it is.
    """
    repairs = ReadWarnings() if repairs is None else repairs
    match corpus:
        case LabeledLines():
            found = _read_lines(corpus, repairs)
        case LabeledTsv():
            found = _read_table(corpus, repairs)
        case LabeledJsonl():
            found = _read_json_lines(corpus, repairs)
        case _:
            assert_never(corpus)
    for example in found:
        if not example.label:
            raise DataError(f"{corpus.path}:{example.line}: the label is empty; mend or remove the line")
        yield example


def _read_lines(corpus: LabeledLines, repairs: ReadWarnings) -> Iterator[LabeledText]:
    for number, line in read_lines(corpus.path, repairs, encoding=corpus.encoding):
        if not line.strip():
            continue
        label, _, text = line.strip().partition(" ")
        if corpus.label_separator is not None:
            label = label.partition(corpus.label_separator)[0]
        if not text.strip():
            raise DataError(
                f"{corpus.path}:{number}: no text after the label {label!r}; "
                "a line is a label, a space and a text. Mend or remove it"
            )
        yield LabeledText(text.strip(), label, number)


def _read_table(corpus: LabeledTsv, repairs: ReadWarnings) -> Iterator[LabeledText]:
    text, label = corpus.text_column - 1, corpus.label_column - 1
    needed = max(text, label) + 1
    for number, line in read_lines(corpus.path, repairs, encoding=corpus.encoding):
        if not line.strip() or (number == 1 and corpus.header):
            continue
        columns = line.split("\t")
        if len(columns) < needed:
            has = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            raise DataError(
                f"{corpus.path}:{number}: {has} where column {needed} is needed; "
                "separate the columns by tabs, or set text_column and label_column"
            )
        yield LabeledText(columns[text], columns[label].strip(), number)


def _read_json_lines(corpus: LabeledJsonl, repairs: ReadWarnings) -> Iterator[LabeledText]:
    for number, line in read_lines(corpus.path, repairs):
        if line.strip():
            where = f"{corpus.path}:{number}"
            row = parse_object(line, where)
            label = _label(get_value(row, corpus.label_field, where), corpus.label_field, where)
            yield LabeledText(get_text(row, corpus.text_field, where), label, number)


def _label(value: Any, field: str, where: str) -> str:
    """A label as text; data sets often number theirs."""
    return str(value) if type(value) is int else check_text(value, field, where).strip()
