"""Parallel corpus in tab-separated columns."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.readers.line_reader import ReadWarnings, split_columns
from dragoman.data.readers.shards import Files, read_shard_lines
from dragoman.data.readers.two_text_files import Example


class ParallelTsv(Config):
    """A file of tab-separated columns, plain or .gz, .bz2, .xz, .zst; quotation marks have no special meaning."""

    kind: Literal["tsv"] = "tsv"

    path: Files
    """File, list of files, or glob pattern."""

    source_column: int = Field(1, ge=1)
    """Column of the source, from 1."""

    target_column: int = Field(2, ge=1)
    """Column of the target, from 1."""

    header: bool = False
    """Whether the first line names the columns."""

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column}; they must differ")
        return self


def read_parallel_tsv(corpus: ParallelTsv, warnings: ReadWarnings) -> Iterator[Example]:
    """Yield the rows; a blank line is an empty pair. Raises DataError at a row with too few columns."""
    names = ("source_column", "target_column")
    needed = max(corpus.source_column, corpus.target_column)
    for path, number, before, line in read_shard_lines(corpus.path, warnings):
        if number == 1 and corpus.header:
            continue
        if line.strip() or line.count("\t") >= needed - 1:
            columns = split_columns(line, needed, where=f"{path}:{number}", keys=names)
            yield Example(columns[corpus.source_column - 1], columns[corpus.target_column - 1], before + number)
        else:
            yield Example("", "", before + number)
