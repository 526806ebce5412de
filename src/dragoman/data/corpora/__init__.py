"""Readers of parallel corpora, one file a format, streamed in constant memory."""

from dragoman.data.corpora.corpus import Corpus, name_of, paths_of, read
from dragoman.data.corpora.example import Example
from dragoman.data.corpora.files import ParallelFiles
from dragoman.data.corpora.jsonl import JsonLines
from dragoman.data.corpora.opening import lines, lines_of
from dragoman.data.corpora.repairs import Repairs
from dragoman.data.corpora.table import Table

__all__ = [
    "Corpus",
    "Example",
    "JsonLines",
    "ParallelFiles",
    "Repairs",
    "Table",
    "lines",
    "lines_of",
    "name_of",
    "paths_of",
    "read",
]
