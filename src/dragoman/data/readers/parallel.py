"""Two files, one text a line, line n of one the translation of line n of the other."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from dragoman.config import Config
from dragoman.data.readers.example import Example
from dragoman.data.readers.shards import Files, is_glob, pair_files
from dragoman.data.readers.text_lines import ReadWarnings, read_lines
from dragoman.errors import DataError


class ParallelFiles(Config):
    """Two aligned text files, or as many of each side as there are shards, plain or .gz, .bz2, .xz, .zst."""

    kind: Literal["files"] = "files"

    source: Files
    """The file with the sources, a text a line; or a list of files, or a pattern that their names match."""

    target: Files
    """The file, or files, with their translations, line by line."""

    source_trees: Path | None = None
    """A CoNLL-U file, plain or compressed, with the dependency tree of each source; for structural positions alone."""

    @model_validator(mode="after")
    def _trees_of_one_file(self) -> Self:
        if self.source_trees is not None and (is_glob(self.source) or not isinstance(self.source, Path)):
            raise ValueError("source_trees are those of one file; join the files of source, or leave the trees out")
        return self


def read_parallel_files(corpus: ParallelFiles, repairs: ReadWarnings) -> Iterator[Example]:
    """The pairs of lines, which are counted on from file to file.

    Raises DataError where one side ends before the other, be it in lines of two files or in files.
    """
    before = 0
    for source, target in pair_files(corpus.source, corpus.target):
        line = 0
        for line, left, right in _lines_of_both(source, target, repairs):
            yield Example(left, right, before + line)
        before += line


def _lines_of_both(source: Path, target: Path, repairs: ReadWarnings) -> Iterator[tuple[int, str, str]]:
    both = zip_longest(read_lines(source, repairs), read_lines(target, repairs))
    for left, right in both:
        if left is None or right is None:
            last = left or right
            for one, other in both:  # to the end, for the message
                last = one or other
            short, long = (source, target) if left is None else (target, source)
            raise _unequal(short, long, fewer=(left or right)[0] - 1, more=last[0])
        yield left[0], left[1], right[1]


def _unequal(short: Path, long: Path, *, fewer: int, more: int) -> DataError:
    return DataError(
        f"{short}:{fewer}: ends after {fewer:,} lines, but {long} has {more:,}; "
        "the two files must be translations of each other line by line"
    )
