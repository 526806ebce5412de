"""One file with a JSON object a line."""

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from dragoman.config import Config
from dragoman.data.corpora.example import Example
from dragoman.data.corpora.opening import lines
from dragoman.data.corpora.repairs import Repairs
from dragoman.errors import DataError


class JsonLines(Config):
    """A file of JSON objects, one a line, plain or .gz, .xz, .zst.

    A source may be a list of sentences; a target may be a list of texts, each of which is right.
    """

    kind: Literal["jsonl"] = "jsonl"

    path: Path
    """The file."""

    source_field: str = "source"
    """The field of the source."""

    target_field: str = "target"
    """The field of the target."""


def read_json_lines(corpus: JsonLines, repairs: Repairs) -> Iterator[Example]:
    """The objects, one example for each target; a blank line is an empty pair.

    Raises DataError at a line that is no object with both texts.
    """
    for number, line in lines(corpus.path, repairs):
        if not line.strip():
            yield Example("", "", number)
            continue
        where = f"{corpus.path}:{number}"
        row = _object(line, where)
        source = " ".join(_texts(row, corpus.source_field, where))
        for target in _texts(row, corpus.target_field, where):
            yield Example(source, target, number)


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise DataError(f"{where}: not valid JSON ({reason}); mend or remove the line") from error
    if not isinstance(row, dict):
        raise DataError(f"{where}: holds a JSON {type(row).__name__}, not an object with fields")
    return row


def _texts(row: Mapping[str, Any], field: str, where: str) -> list[str]:
    """The texts of a field that holds one or a list; there is one at least."""
    if field not in row:
        near = difflib.get_close_matches(field, list(row), n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(row) or 'none'}"
        raise DataError(f"{where}: no field {field!r}; {remedy} Set source_field and target_field.")
    value = row[field]
    if isinstance(value, list):
        return [_text(one, field, where) for one in value] or [""]
    return [_text(value, field, where)]


def _text(text: Any, field: str, where: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"{where}: field {field!r} holds {type(text).__name__}, not a text; mend or remove the line")
    if "\x00" in text:
        raise DataError(f"{where}: field {field!r} holds a NUL character, so it is no text; remove it")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(
            f"{where}: field {field!r} holds half of a surrogate pair (\\ud800 to \\udfff); mend the escape"
        )
    return text
