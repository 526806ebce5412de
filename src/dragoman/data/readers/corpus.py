"""Any parallel corpus, by configuration."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, assert_never

from pydantic import Field

from dragoman.data.readers.example import Example
from dragoman.data.readers.jsonl import ParallelJsonl, read_parallel_jsonl
from dragoman.data.readers.parallel import ParallelFiles, read_parallel_files
from dragoman.data.readers.parquet import ParallelParquet, read_parallel_parquet
from dragoman.data.readers.shards import describe_files, pair_files, resolve_files
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.data.readers.tsv import ParallelTsv, read_parallel_tsv

ParallelCorpus = Annotated[ParallelFiles | ParallelTsv | ParallelJsonl | ParallelParquet, Field(discriminator="kind")]


def read_corpus(corpus: ParallelCorpus, repairs: ReadWarnings | None = None) -> Iterator[Example]:
    """The examples of a corpus, streamed; what was mended on the way is counted in `repairs`.

    Raises DataError with file, line and remedy where the corpus cannot be read as it is.
    """
    repairs = ReadWarnings() if repairs is None else repairs
    match corpus:
        case ParallelFiles():
            return read_parallel_files(corpus, repairs)
        case ParallelTsv():
            return read_parallel_tsv(corpus, repairs)
        case ParallelJsonl():
            return read_parallel_jsonl(corpus, repairs)
        case ParallelParquet():
            return read_parallel_parquet(corpus, repairs)
        case _:
            assert_never(corpus)


def corpus_shards(corpus: ParallelCorpus) -> tuple[ParallelCorpus, ...]:
    """The corpus as one of each shard, in order. Raises DataError as `shards` and `paired` do."""
    match corpus:
        case ParallelFiles(source=source, target=target):
            return tuple(
                corpus.model_copy(update={"source": one, "target": other}) for one, other in pair_files(source, target)
            )
        case ParallelTsv(path=path) | ParallelJsonl(path=path) | ParallelParquet(path=path):
            return tuple(corpus.model_copy(update={"path": one}) for one in resolve_files(path))
        case _:
            assert_never(corpus)


def corpus_paths(corpus: ParallelCorpus) -> tuple[Path, ...]:
    """The files of a corpus, source first; those that a pattern matches. Raises DataError where none does."""
    match corpus:
        case ParallelFiles(source=source, target=target, source_trees=trees):
            return (*resolve_files(source), *resolve_files(target), *(() if trees is None else (trees,)))
        case ParallelTsv(path=path) | ParallelJsonl(path=path) | ParallelParquet(path=path):
            return resolve_files(path)
        case _:
            assert_never(corpus)


def corpus_name(corpus: ParallelCorpus) -> str:
    """The corpus in a message, such as `train.en and train.de`."""
    match corpus:
        case ParallelFiles(source=source, target=target, source_trees=trees):
            given = [source, target, *(() if trees is None else (trees,))]
        case ParallelTsv(path=path) | ParallelJsonl(path=path) | ParallelParquet(path=path):
            given = [path]
        case _:
            assert_never(corpus)
    return " and ".join(map(describe_files, given))
