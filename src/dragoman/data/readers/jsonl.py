"""Parallel corpus of JSON objects, one per line."""

from collections.abc import Iterator
from typing import Literal

from dragoman.config import Config
from dragoman.data.readers.json_fields import JsonObject, check_text, get_value, parse_object
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.shards import Files, read_shard_lines
from dragoman.data.readers.two_text_files import Example


class ParallelJsonl(Config):
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


def read_parallel_jsonl(corpus: ParallelJsonl, warnings: ReadWarnings) -> Iterator[Example]:
    """Yield one example per target; a blank line is an empty pair. Raises DataError at an object without both texts."""
    for path, number, before, line in read_shard_lines(corpus.path, warnings):
        if not line.strip():
            yield Example("", "", before + number)
            continue
        where = f"{path}:{number}"
        row = parse_object(line, where)
        source = " ".join(_texts(row, corpus.source_field, where))
        for target in _texts(row, corpus.target_field, where):
            yield Example(source, target, before + number)


def _texts(row: JsonObject, field: str, where: str) -> list[str]:
    """Return the texts of a field that holds a text or a list of texts, at least one."""
    value = get_value(row, field, where)
    return [check_text(one, field, where) for one in (value if isinstance(value, list) else [value])] or [""]
