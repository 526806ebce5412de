"""Any parallel corpus, by configuration."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, assert_never

from pydantic import Field

from dragoman.data.readers.example import Example
from dragoman.data.readers.jsonl import JsonLines, read_json_lines
from dragoman.data.readers.parallel import ParallelFiles, read_files
from dragoman.data.readers.parquet import Parquet, read_parquet
from dragoman.data.readers.repairs import Repairs
from dragoman.data.readers.shards import paired, shards, shown
from dragoman.data.readers.tsv import Table, read_table

Corpus = Annotated[ParallelFiles | Table | JsonLines | Parquet, Field(discriminator="kind")]


def read(corpus: Corpus, repairs: Repairs | None = None) -> Iterator[Example]:
    """The examples of a corpus, streamed; what was mended on the way is counted in `repairs`.

    Raises DataError with file, line and remedy where the corpus cannot be read as it is.
    """
    repairs = Repairs() if repairs is None else repairs
    match corpus:
        case ParallelFiles():
            return read_files(corpus, repairs)
        case Table():
            return read_table(corpus, repairs)
        case JsonLines():
            return read_json_lines(corpus, repairs)
        case Parquet():
            return read_parquet(corpus, repairs)
        case _:
            assert_never(corpus)


def parts_of(corpus: Corpus) -> tuple[Corpus, ...]:
    """The corpus as one of each shard, in order. Raises DataError as `shards` and `paired` do."""
    match corpus:
        case ParallelFiles(source=source, target=target):
            return tuple(
                corpus.model_copy(update={"source": one, "target": other}) for one, other in paired(source, target)
            )
        case Table(path=path) | JsonLines(path=path) | Parquet(path=path):
            return tuple(corpus.model_copy(update={"path": one}) for one in shards(path))
        case _:
            assert_never(corpus)


def paths_of(corpus: Corpus) -> tuple[Path, ...]:
    """The files of a corpus, source first; those that a pattern matches. Raises DataError where none does."""
    match corpus:
        case ParallelFiles(source=source, target=target, source_trees=trees):
            return (*shards(source), *shards(target), *(() if trees is None else (trees,)))
        case Table(path=path) | JsonLines(path=path) | Parquet(path=path):
            return shards(path)
        case _:
            assert_never(corpus)


def name_of(corpus: Corpus) -> str:
    """The corpus in a message, such as `train.en and train.de`."""
    match corpus:
        case ParallelFiles(source=source, target=target, source_trees=trees):
            given = [source, target, *(() if trees is None else (trees,))]
        case Table(path=path) | JsonLines(path=path) | Parquet(path=path):
            given = [path]
        case _:
            assert_never(corpus)
    return " and ".join(map(shown, given))
