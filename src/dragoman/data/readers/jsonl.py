"""One file with a JSON object a line."""

from collections.abc import Iterator
from typing import Literal

from dragoman.config import Config
from dragoman.data.readers.example import Example
from dragoman.data.readers.json_fields import Tree, parse_object, text_from, value_of
from dragoman.data.readers.repairs import Repairs
from dragoman.data.readers.shards import Files, lines_of_shards


class JsonLines(Config):
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


def read_json_lines(corpus: JsonLines, repairs: Repairs) -> Iterator[Example]:
    """The objects, one example for each target; a blank line is an empty pair.

    Raises DataError at a line that is no object with both texts.
    """
    for path, number, before, line in lines_of_shards(corpus.path, repairs):
        if not line.strip():
            yield Example("", "", before + number)
            continue
        where = f"{path}:{number}"
        row = parse_object(line, where)
        source = " ".join(_texts(row, corpus.source_field, where))
        for target in _texts(row, corpus.target_field, where):
            yield Example(source, target, before + number)


def _texts(row: Tree, field: str, where: str) -> list[str]:
    """The texts of a field that holds one or a list; there is one at least."""
    value = value_of(row, field, where)
    if isinstance(value, list):
        return [text_from(one, field, where) for one in value] or [""]
    return [text_from(value, field, where)]
