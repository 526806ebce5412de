"""Two files, one text a line, line n of one the translation of line n of the other."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from dragoman.config import Config
from dragoman.data.corpora.example import Example
from dragoman.data.corpora.opening import lines
from dragoman.data.corpora.repairs import Repairs
from dragoman.errors import DataError


class ParallelFiles(Config):
    """Two aligned text files, plain or .gz, .xz, .zst."""

    kind: Literal["files"] = "files"

    source: Path
    """The file with the sources, a text a line."""

    target: Path
    """The file with their translations, line by line."""

    source_trees: Path | None = None
    """A CoNLL-U file, plain or compressed, with the dependency tree of each source; for structural positions alone."""


def read_files(corpus: ParallelFiles, repairs: Repairs) -> Iterator[Example]:
    """The pairs of lines. Raises DataError where one file ends before the other."""
    both = zip_longest(lines(corpus.source, repairs), lines(corpus.target, repairs))
    for source, target in both:
        if source is None or target is None:
            last = source or target
            for left, right in both:  # to the end, for the message
                last = left or right
            raise _unequal(corpus, source is None, (source or target)[0] - 1, last[0])
        yield Example(source[1], target[1], source[0])


def _unequal(corpus: ParallelFiles, source_ended: bool, fewer: int, more: int) -> DataError:
    short, long = (corpus.source, corpus.target) if source_ended else (corpus.target, corpus.source)
    return DataError(
        f"{short}:{fewer}: ends after {fewer:,} lines, but {long} has {more:,}; "
        "the two files must be translations of each other line by line"
    )
