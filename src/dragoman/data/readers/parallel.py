"""Parallel corpora: two texts, columns, JSON objects, Parquet, TMX, XLIFF, PO and ZIP, in one or several files.

A corpus in several files (shards) is a list of files, or a glob pattern such as `train.*.en.gz`, sorted by name.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, Self, assert_never

from pydantic import Field, model_validator

from dragoman.data.fingerprints import changed_file_error, file_state
from dragoman.data.readers.exchange_formats import (
    ParallelPo,
    ParallelTmx,
    ParallelXliff,
    ParallelZip,
    read_po,
    read_tmx,
    read_xliff,
    read_zip,
)
from dragoman.data.readers.json_fields import JsonObject, check_text, get_value, parse_object
from dragoman.data.readers.line_reader import ReadWarnings, check_columns_differ, read_lines, split_columns
from dragoman.data.readers.pair_corpus import Files, PairCorpus, PairRow
from dragoman.errors import DataError, MissingExtraError, describe_unreadable
from dragoman.number_words import counted

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

_WILDCARD = re.compile(r"[*?[]")
PARQUET_ROWS = 4096
"""Rows of a Parquet file in memory at a time."""


@dataclass(frozen=True, slots=True)
class Example:
    """Source, target and their line (from 1) in the corpus; either side may be empty."""

    source: str
    target: str
    line: int
    begins_document: bool = field(default=False, compare=False)
    """Whether it is the first of a file, or the corpus names another document than that of the example before."""


class ParallelFiles(PairCorpus):
    """Two aligned text files, or the same number of shards for each side, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["files"] = "files"
    source: Files
    """File with one source per line, a list of files, or a glob pattern."""
    target: Files
    """File with the translations, line by line, a list of files, or a glob pattern."""
    source_features: Path | None = None
    """CoNLL-U file, plain or compressed, with the dependency tree of each source, for `tree` positions."""

    @model_validator(mode="after")
    def _check_one_file(self) -> Self:
        if self.source_features is not None and (is_glob(self.source) or not isinstance(self.source, Path)):
            raise ValueError(
                "source_features needs a single source file; join the files of source, or remove source_features"
            )
        return self


class ParallelTsv(PairCorpus):
    """A file of tab-separated columns, plain or .gz, .bz2, .xz, .zst; quotation marks have no special meaning."""

    kind: Literal["tsv"] = "tsv"
    path: Files
    """File, list of files, or glob pattern."""
    source_column: int = Field(default=1, ge=1)
    """Column of the source, from 1."""
    target_column: int = Field(default=2, ge=1)
    """Column of the target, from 1."""
    document_column: int | None = Field(default=None, ge=1)
    """Column that names the document of a pair, for `data.context`."""
    header: bool = False
    """Whether the first line names the columns."""

    _check_columns = model_validator(mode="after")(check_columns_differ)


class ParallelJsonl(PairCorpus):
    """A file of JSON objects, one per line, plain or .gz, .bz2, .xz, .zst.

    A source may be a list of sentences. A target may be a list of alternative texts, each of which gives an example.
    """

    kind: Literal["jsonl"] = "jsonl"
    path: Files
    """File, list of files, or glob pattern."""
    source_field: str = "source"
    """Field of the source."""
    target_field: str = "target"
    """Field of the target."""
    document_field: str | None = None
    """Field that names the document of a pair, for `data.context`."""


class ParallelParquet(PairCorpus):
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
    document_column: str | None = None
    """Column that names the document of a pair, for `data.context`."""

    _check_columns = model_validator(mode="after")(check_columns_differ)


ParallelCorpus = Annotated[
    ParallelFiles
    | ParallelTsv
    | ParallelJsonl
    | ParallelParquet
    | ParallelTmx
    | ParallelXliff
    | ParallelPo
    | ParallelZip,
    Field(discriminator="kind"),
]


def read_corpus(corpus: ParallelCorpus, warnings: ReadWarnings | None = None) -> Iterator[Example]:
    """Yield the examples of a corpus and count repairs in `warnings`; line numbers continue from shard to shard.

    Raises DataError, with file, line and remedy, if the corpus is unreadable.
    """
    warnings, before = ReadWarnings() if warnings is None else warnings, 0
    for shard in _read_shards(corpus, warnings):
        line, document_before = 0, None
        for line, source, target, *document in shard:
            yield Example(source, target, before + line, begins_document=document != document_before)
            document_before = document
        before += line


def corpus_shards(corpus: ParallelCorpus) -> tuple[ParallelCorpus, ...]:
    """Return one corpus per shard, in order. Raises DataError as `resolve_files` and `pair_files` do."""
    if isinstance(corpus, ParallelFiles):
        pairs = pair_files(corpus.source, corpus.target)
        return tuple(corpus.model_copy(update={"source": source, "target": target}) for source, target in pairs)
    return tuple(corpus.model_copy(update={"path": path}) for path in resolve_files(corpus.path))


def corpus_paths(corpus: ParallelCorpus) -> tuple[Path, ...]:
    """Return the files of a corpus, sources first. Raises DataError if a pattern matches no file."""
    return tuple(path for files in _corpus_files(corpus) for path in resolve_files(files))


def corpus_name(*corpora: ParallelCorpus) -> str:
    """Return the name of one or several corpora for messages, such as `train.en and train.de`."""
    return " and ".join(describe_files(files) for corpus in corpora for files in _corpus_files(corpus))


def resolve_files(files: Files) -> tuple[Path, ...]:
    """Return the files in reading order. Raises DataError if a pattern matches no file."""
    return tuple(path for given in _as_tuple(files) for path in _matches(given))


def pair_files(source: Files, target: Files) -> tuple[tuple[Path, Path], ...]:
    """Pair each source file with its target file.

    Raises DataError if the sides differ in their number of files, or if their patterns match different names.
    """
    left, right = resolve_files(source), resolve_files(target)
    if len(left) != len(right):
        fewer, more = sorted((left, right), key=len)
        raise DataError(
            f"{describe_files(source)} is {_counted(left)}, but {describe_files(target)} is {_counted(right)}; each "
            f"file needs a file with its translations: {more[len(fewer)]} has none"
        )
    if is_glob(source) and is_glob(target):
        for one, other in zip(left, right, strict=True):
            if _wildcard_texts(source, one) != _wildcard_texts(target, other):
                raise DataError(
                    f"{one} and {other} do not belong together: the wildcards of {source} and {target} match different "
                    "texts; rename the files, or list the files of each side in order"
                )
    return tuple(zip(left, right, strict=True))


def is_glob(files: Files) -> bool:
    """Return whether the files are given by a pattern; an existing file whose name looks like a pattern is a file."""
    return isinstance(files, Path) and _WILDCARD.search(str(files)) is not None and not files.exists()


def describe_files(files: Files) -> str:
    """Return the files for messages."""
    first, *further = _as_tuple(files)
    return f"{first} and {counted(len(further), 'further files')}" if further else str(first)


def parquet_text_columns(path: Path) -> list[str]:
    """Return the columns of a Parquet file that contain texts; a dot names a column inside another column."""
    with _open_parquet(path) as file:
        columns = [file.schema.column(number) for number in range(len(file.schema.names))]
        return [one.path for one in columns if one.physical_type == "BYTE_ARRAY" and ".list." not in one.path]


def _corpus_files(corpus: ParallelCorpus) -> list[Files]:
    if isinstance(corpus, ParallelFiles):
        features = [] if corpus.source_features is None else [corpus.source_features]
        return [corpus.source, corpus.target, *features]
    return [corpus.path]


def _as_tuple(files: Files) -> tuple[Path, ...]:
    return (files,) if isinstance(files, Path) else files


def _matches(path: Path) -> tuple[Path, ...]:
    if not is_glob(path):
        return (path,)
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # pathlib cannot match an absolute pattern
    if not found:
        raise DataError(f"{path}: no file matches; check the path, and quote a pattern so that the shell keeps it")
    return tuple(map(Path, found))


def _wildcard_texts(pattern: Files, path: Path) -> tuple[str, ...]:
    """Return the text that each wildcard of a pattern matches in a path."""
    groups = {"**/": "(.*/|)", "*": "([^/]*)", "?": "([^/])"}
    parts = re.split(r"(\*\*/|\*|\?|\[[^]]*\])", str(pattern))
    expression = "".join(
        groups.get(part, f"({part.replace('[!', '[^')})") if place % 2 else re.escape(part)
        for place, part in enumerate(parts)
    )
    match = re.fullmatch(expression, str(path))
    return match.groups() if match is not None else ()


def _counted(files: tuple[Path, ...]) -> str:
    return counted(len(files), "files")


def _read_shards(corpus: ParallelCorpus, warnings: ReadWarnings) -> Iterator[Iterator[PairRow]]:
    match corpus:
        case ParallelFiles(source=source, target=target):
            return (_read_aligned(*pair, warnings) for pair in pair_files(source, target))
        case ParallelTsv(path=files):
            return (_read_tsv(path, corpus, warnings) for path in resolve_files(files))
        case ParallelJsonl(path=files):
            return (_read_jsonl(path, corpus, warnings) for path in resolve_files(files))
        case ParallelParquet(path=files):
            return (_read_parquet(path, corpus, warnings) for path in resolve_files(files))
        case ParallelTmx(path=files):
            return (read_tmx(path, corpus, warnings) for path in resolve_files(files))
        case ParallelXliff(path=files):
            return (read_xliff(path, corpus, warnings) for path in resolve_files(files))
        case ParallelPo(path=files):
            return (read_po(path, corpus, warnings) for path in resolve_files(files))
        case ParallelZip(path=files):
            return (read_zip(path, corpus, warnings) for path in resolve_files(files))
        case _:
            assert_never(corpus)


def _read_aligned(source: Path, target: Path, warnings: ReadWarnings) -> Iterator[PairRow]:
    both = zip_longest(read_lines(source, warnings), read_lines(target, warnings))
    for left, right in both:
        if left is None or right is None:
            last = left or right
            for one, other in both:  # count the remaining lines for the message
                last = one or other
            short, long = (source, target) if left is None else (target, source)
            fewer, more = (left or right)[0] - 1, last[0]
            raise DataError(
                f"{short}:{fewer}: ends after {counted(fewer, 'lines')}, but {long} has {more:,}; "
                "the two files must be translations of each other line by line"
            )
        yield left[0], left[1], right[1]


def _read_tsv(path: Path, corpus: ParallelTsv, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield the rows; a blank line is an empty pair."""
    source, target = corpus.source_column, corpus.target_column
    needed = max(source, target, corpus.document_column or 1)
    for number, line in read_lines(path, warnings):
        if number == 1 and corpus.header:
            continue
        if line.strip() or line.count("\t") >= needed - 1:
            columns = split_columns(line, needed, where=f"{path}:{number}", keys=("source_column", "target_column"))
            texts = columns[source - 1], columns[target - 1]
            if corpus.document_column is None:
                yield number, *texts
            else:
                yield number, *texts, columns[corpus.document_column - 1]
        else:
            yield number, "", ""


def _read_jsonl(path: Path, corpus: ParallelJsonl, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield one row per target; a blank line is an empty pair."""
    for number, line in read_lines(path, warnings):
        if not line.strip():
            yield number, "", ""
            continue
        where = f"{path}:{number}"
        row = parse_object(line, where)
        source = " ".join(_texts(row, corpus.source_field, where))
        for target in _texts(row, corpus.target_field, where):
            if corpus.document_field is None:
                yield number, source, target
            else:
                yield number, source, target, str(get_value(row, corpus.document_field, where))


def _texts(row: JsonObject, field: str, where: str) -> list[str]:
    """Return the texts of a field that holds a text or a list of texts, at least one."""
    value = get_value(row, field, where)
    return [check_text(one, field, where) for one in (value if isinstance(value, list) else [value])] or [""]


def _read_parquet(path: Path, corpus: ParallelParquet, warnings: ReadWarnings) -> Iterator[PairRow]:
    """Yield the rows; a missing value is an empty text."""
    names = tuple(filter(None, (corpus.source_column, corpus.target_column, corpus.document_column)))
    with _unchanged_file(path, warnings) as stream, _open_parquet(path, stream) as file:
        batches = _parquet_batches(file, path, names)
        rows = (row for batch in batches for row in zip(*(_column(batch, name, path) for name in names), strict=True))
        for number, row in enumerate(rows, start=1):
            source, target = (
                "" if value is None else check_text(value, name, f"{path}, row {number}")
                for name, value in zip(names[:2], row[:2], strict=True)
            )
            for text in (source, target):
                if not text or text.isspace():
                    warnings.record(path, "blank", number)
            if corpus.document_column is None:
                yield number, source, target
            else:
                yield number, source, target, str(row[2])


@contextmanager
def _unchanged_file(path: Path, warnings: ReadWarnings) -> Iterator[BinaryIO]:
    """Open a file that is read in any order, and record its fingerprint when it has been read.

    Raises DataError if it changes meanwhile.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DataError(describe_unreadable(path, error)) from error
    with stream:
        before = file_state(os.fstat(stream.fileno()))
        yield stream
        stream.seek(0)
        fingerprint = hashlib.file_digest(stream, "sha256").hexdigest()
        if file_state(os.fstat(stream.fileno())) != before:
            raise changed_file_error(path)
        warnings.record_content(path, fingerprint)


def _open_parquet(path: Path, stream: BinaryIO | None = None) -> "ParquetFile":
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(feature="reading Parquet", extra="parquet") from error
    try:
        return pyarrow.parquet.ParquetFile(stream or path, pre_buffer=False)
    except OSError as error:
        raise DataError(describe_unreadable(path, error)) from error
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: no Parquet file, or a damaged one ({_first_line(error)}); copy it again") from error


def _parquet_batches(file: "ParquetFile", path: Path, names: tuple[str, ...]) -> "Iterator[RecordBatch]":
    import pyarrow

    known = [column.path for column in file.schema]
    for name in names:
        if name not in known:
            raise DataError(
                f"{path}: no column {name!r}; it has: {', '.join(known)}. Set source_column and target_column"
            )
    options: dict[str, Any] = {"batch_size": PARQUET_ROWS, "columns": list(names), "use_threads": False}
    try:
        for group in range(file.num_row_groups):  # one by one, because the library keeps all requested groups
            yield from file.iter_batches(row_groups=[group], **options)
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
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
