"""Parquet files, read a few rows at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from dragoman.config import Config
from dragoman.data.readers.example import Example
from dragoman.data.readers.json_fields import check_text
from dragoman.data.readers.shards import Files, resolve_files
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

BATCH_ROWS = 4096
"""Rows that are in memory at a time."""


class ParallelParquet(Config):
    """Parquet files with a column for each side (extra `parquet`).

    A column inside another is named with a dot, as `translation.en`.
    """

    kind: Literal["parquet"] = "parquet"

    path: Files
    """The file, a list of files, or a pattern that their names match."""

    source_column: str = "source"
    """The column of the source."""

    target_column: str = "target"
    """The column of the target."""

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        if self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column}; they must differ")
        return self


def read_parallel_parquet(corpus: ParallelParquet, repairs: ReadWarnings) -> Iterator[Example]:
    """The rows, as the lines from 1 on; a missing value is an empty text.

    Raises DataError where a file is none, lacks a column, or a row holds no text.
    """
    before = 0
    for path in resolve_files(corpus.path):
        number = 0
        for number, source, target in _rows(path, corpus):
            for text in (source, target):
                if not text or text.isspace():
                    repairs.record(path, "blank", number)
            yield Example(source, target, before + number)
        before += number


def _rows(path: Path, corpus: ParallelParquet) -> Iterator[tuple[int, str, str]]:
    names = (corpus.source_column, corpus.target_column)
    number = 0
    with _opened(path) as file:
        for batch in _batches(file, path, names):
            columns = [_column(batch, name, path) for name in names]
            for source, target in zip(*columns, strict=True):
                number += 1
                texts = [
                    "" if value is None else check_text(value, name, f"{path}, row {number}")
                    for name, value in zip(names, (source, target), strict=True)
                ]
                yield number, texts[0], texts[1]


def _opened(path: Path) -> "ParquetFile":
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(feature="reading Parquet", extra="parquet") from error
    try:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: no Parquet file, or a damaged one ({_first_line(error)}); copy it again") from error


def _batches(file: "ParquetFile", path: Path, names: tuple[str, str]) -> "Iterator[RecordBatch]":
    import pyarrow

    known = [column.path for column in file.schema]
    for name in names:
        if name not in known:
            raise DataError(
                f"{path}: no column {name!r}; it has: {', '.join(known)}. Set source_column and target_column"
            )
    try:
        for group in range(file.num_row_groups):  # asked for all of them, the library keeps them all
            yield from file.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[group], columns=list(names), use_threads=False
            )
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: damaged ({_first_line(error)}); copy or download it again") from error


def _column(batch: "RecordBatch", name: str, path: Path) -> list[Any]:
    """The values of a column, which may be inside others."""
    import pyarrow.compute

    first, *inner = name.split(".")
    if name in batch.schema.names:
        first, inner = name, []
    column = batch.column(first)
    for part in inner:
        column = pyarrow.compute.struct_field(column, part)
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: column {name!r} holds what is not UTF-8 ({error.reason}); convert it") from error
    return values


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
