"""Parallel corpus in two text files: line n of one is the translation of line n of the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from dragoman.config import Config
from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.data.readers.shards import Files, is_glob, pair_files
from dragoman.errors import DataError


@dataclass(frozen=True, slots=True)
class Example:
    """Source, target and their line (from 1) in the corpus; either side may be empty."""

    source: str
    target: str
    line: int


class ParallelFiles(Config):
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


def read_parallel_files(corpus: ParallelFiles, warnings: ReadWarnings) -> Iterator[Example]:
    """Yield the pairs; line numbers continue from shard to shard.

    Raises DataError if the two sides differ in their number of lines or files.
    """
    before = 0
    for source, target in pair_files(corpus.source, corpus.target):
        line = 0
        for line, left, right in _aligned_lines(source, target, warnings):
            yield Example(left, right, before + line)
        before += line


def _aligned_lines(source: Path, target: Path, warnings: ReadWarnings) -> Iterator[tuple[int, str, str]]:
    both = zip_longest(read_lines(source, warnings), read_lines(target, warnings))
    for left, right in both:
        if left is None or right is None:
            last = left or right
            for one, other in both:  # count the remaining lines for the message
                last = one or other
            short, long = (source, target) if left is None else (target, source)
            fewer, more = (left or right)[0] - 1, last[0]
            raise DataError(
                f"{short}:{fewer}: ends after {fewer:,} lines, but {long} has {more:,}; "
                "the two files must be translations of each other line by line"
            )
        yield left[0], left[1], right[1]
