"""One file with a JSON object a line."""

from collections.abc import Iterator
from typing import Literal

from dragoman.config import Config
from dragoman.data.readers.example import Example
from dragoman.data.readers.json_fields import JsonObject, check_text, get_value, parse_object
from dragoman.data.readers.shards import Files, read_shard_lines
from dragoman.data.readers.text_lines import ReadWarnings


class ParallelJsonl(Config):
    """A file of JSON objects, one a line, plain or .gz, .bz2, .xz, .zst.

    A source may be a list of sentences; a target may be a list of texts, each of which is right.
    """

    kind: Literal["jsonl"] = "jsonl"

    path: Files
    """The file, a list of files, or a pattern that their names match."""

    source_field: str = "source"
    """The field of the source."""

    target_field: str = "target"
    """The field of the target."""


def read_parallel_jsonl(corpus: ParallelJsonl, repairs: ReadWarnings) -> Iterator[Example]:
    """The objects, one example for each target; a blank line is an empty pair.

    Raises DataError at a line that is no object with both texts.
    """
    for path, number, before, line in read_shard_lines(corpus.path, repairs):
        if not line.strip():
            yield Example("", "", before + number)
            continue
        where = f"{path}:{number}"
        row = parse_object(line, where)
        source = " ".join(_texts(row, corpus.source_field, where))
        for target in _texts(row, corpus.target_field, where):
            yield Example(source, target, before + number)


def _texts(row: JsonObject, field: str, where: str) -> list[str]:
    """The texts of a field that holds one or a list; there is one at least."""
    value = get_value(row, field, where)
    if isinstance(value, list):
        return [check_text(one, field, where) for one in value] or [""]
    return [check_text(value, field, where)]
