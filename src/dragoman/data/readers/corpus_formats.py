"""Parallel corpora of any format."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, assert_never

from pydantic import Field

from dragoman.data.readers.jsonl import ParallelJsonl, read_parallel_jsonl
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parquet import ParallelParquet, read_parallel_parquet
from dragoman.data.readers.shards import Files, describe_files, pair_files, resolve_files
from dragoman.data.readers.tsv import ParallelTsv, read_parallel_tsv
from dragoman.data.readers.two_text_files import Example, ParallelFiles, read_parallel_files

ParallelCorpus = Annotated[ParallelFiles | ParallelTsv | ParallelJsonl | ParallelParquet, Field(discriminator="kind")]


def read_corpus(corpus: ParallelCorpus, warnings: ReadWarnings | None = None) -> Iterator[Example]:
    """Yield the examples of a corpus and count repairs in `warnings`.

    Raises DataError, with file, line and remedy, if the corpus is unreadable.
    """
    warnings = ReadWarnings() if warnings is None else warnings
    match corpus:
        case ParallelFiles():
            return read_parallel_files(corpus, warnings)
        case ParallelTsv():
            return read_parallel_tsv(corpus, warnings)
        case ParallelJsonl():
            return read_parallel_jsonl(corpus, warnings)
        case ParallelParquet():
            return read_parallel_parquet(corpus, warnings)
        case _:
            assert_never(corpus)


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


def _corpus_files(corpus: ParallelCorpus) -> list[Files]:
    if isinstance(corpus, ParallelFiles):
        features = [] if corpus.source_features is None else [corpus.source_features]
        return [corpus.source, corpus.target, *features]
    return [corpus.path]
