"""One file with source and target in columns, separated by tabs."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.readers.example import Example
from dragoman.data.readers.shards import Files, read_shard_lines
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.errors import DataError


class ParallelTsv(Config):
    """A file of tab-separated columns, plain or .gz, .bz2, .xz, .zst; quotes have no meaning."""

    kind: Literal["tsv"] = "tsv"

    path: Files
    """The file, a list of files, or a pattern that their names match."""

    source_column: int = Field(1, ge=1)
    """The column of the source, from 1."""

    target_column: int = Field(2, ge=1)
    """The column of the target, from 1."""

    header: bool = False
    """Whether the first line names the columns."""

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        if self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column}; they must differ")
        return self


def read_parallel_tsv(corpus: ParallelTsv, repairs: ReadWarnings) -> Iterator[Example]:
    """The rows. Raises DataError at a row with too few columns; a blank line is an empty pair."""
    left, right = corpus.source_column - 1, corpus.target_column - 1
    needed = max(left, right) + 1
    for path, number, before, line in read_shard_lines(corpus.path, repairs):
        if number == 1 and corpus.header:
            continue
        columns = line.split("\t")
        if len(columns) >= needed:
            yield Example(columns[left], columns[right], before + number)
        elif not line.strip():
            yield Example("", "", before + number)
        else:
            has = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            raise DataError(
                f"{path}:{number}: {has} where column {needed} is needed; "
                "separate the columns by tabs, or set source_column and target_column"
            )
