"""Parallel corpus in Parquet files, read in batches of rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from dragoman.config import Config
from dragoman.data.readers.json_fields import check_text
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.shards import Files, resolve_files
from dragoman.data.readers.two_text_files import Example
from dragoman.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

BATCH_ROWS = 4096
"""Rows in memory at a time."""


class ParallelParquet(Config):
    """Parquet files with one column per side (extra `parquet`).

    A dot names a column inside another column: `translation.en`.
    """

    kind: Literal["parquet"] = "parquet"

    path: Files
    """File, list of files, or glob pattern."""

    source_column: str = "source"
    """Column of the source."""

    target_column: str = "target"
    """Column of the target."""

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column}; they must differ")
        return self


def read_parallel_parquet(corpus: ParallelParquet, warnings: ReadWarnings) -> Iterator[Example]:
    """Yield the rows, numbered as lines from 1 on; a missing value is an empty text.

    Raises DataError if a file is not Parquet, a column is missing, or a value is not a text.
    """
    before = 0
    for path in resolve_files(corpus.path):
        number = 0
        for number, (source, target) in enumerate(_rows(path, corpus), start=1):
            for text in (source, target):
                if not text or text.isspace():
                    warnings.record(path, "blank", number)
            yield Example(source, target, before + number)
        before += number


def _rows(path: Path, corpus: ParallelParquet) -> Iterator[list[str]]:
    names = (corpus.source_column, corpus.target_column)
    number = 0
    with _open(path) as file:
        for batch in _batches(file, path, names):
            for row in zip(*(_column(batch, name, path) for name in names), strict=True):
                number += 1
                yield [
                    "" if value is None else check_text(value, name, f"{path}, row {number}")
                    for name, value in zip(names, row, strict=True)
                ]


def _open(path: Path) -> "ParquetFile":
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
        for group in range(file.num_row_groups):  # one by one, because the library keeps all requested groups
            yield from file.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[group], columns=list(names), use_threads=False
            )
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: damaged ({_first_line(error)}); copy or download it again") from error


def _column(batch: "RecordBatch", name: str, path: Path) -> list[Any]:
    """Return the values of a column, which may be nested."""
    import pyarrow.compute

    first, *inner = [name] if name in batch.schema.names else name.split(".")
    column = batch.column(first)
    for part in inner:
        column = pyarrow.compute.struct_field(column, part)
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: column {name!r} is not UTF-8 ({error.reason}); convert it") from error
    return values


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
