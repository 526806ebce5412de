"""Checked access to JSON objects: error messages name the place, the expected type and the remedy."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.errors import DataError, nearest

JsonObject = Mapping[str, Any]


def read_objects(path: Path, warnings: ReadWarnings) -> Iterator[tuple[int, str, JsonObject]]:
    """Yield line number, location and object of each line; blank lines are skipped.

    Raises DataError as `read_lines` and `parse_object` do.
    """
    for number, line in read_lines(path, warnings):
        if line.strip():
            where = f"{path}:{number}"
            yield number, where, parse_object(line, where)


def parse_object(content: str | bytes, where: str) -> JsonObject:
    """Parse a JSON object. Raises DataError for anything else."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise DataError(f"{where}: not valid JSON ({reason}); correct or remove it") from error
    return check_object(tree, where)


def check_object(value: Any, where: str) -> JsonObject:
    """Return the value if it is an object."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: holds a JSON {type(value).__name__}, not an object with fields")
    return value


def get_value(row: JsonObject, field: str, where: str) -> Any:
    """Return the value of a field. Raises DataError, with the nearest field name, if the field is missing."""
    if field not in row:
        near = nearest(field, row, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(row) or 'none'}"
        raise DataError(f"{where}: no field {field!r}; {remedy}")
    return row[field]


def get_text(row: JsonObject, field: str, where: str) -> str:
    """Return the text of a field."""
    return check_text(get_value(row, field, where), field, where)


def check_text(value: Any, field: str, where: str) -> str:
    """Return the value if it is a text that a file can hold."""
    if not isinstance(value, str):
        raise DataError(f"{where}: field {field!r} holds {type(value).__name__}, not a text; correct or remove it")
    if "\x00" in value:
        raise DataError(f"{where}: field {field!r} holds a NUL character, so it is not text; remove it")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DataError(
            f"{where}: field {field!r} holds half a surrogate pair (\\ud800 to \\udfff); correct the escape"
        )
    return value


def check_index(value: Any, field: str, where: str) -> int:
    """Return the value if it is a whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DataError(f"{where}: field {field!r} holds {value!r}, not a whole number from 0 on; correct or remove it")
    return value


def get_list(row: JsonObject, field: str, where: str) -> list[Any]:
    """Return the list of a field."""
    value = get_value(row, field, where)
    if not isinstance(value, list):
        raise DataError(f"{where}: field {field!r} holds {type(value).__name__}, not a list; correct or remove it")
    return value


def get_objects(row: JsonObject, field: str, where: str) -> Iterator[tuple[JsonObject, str]]:
    """Yield the objects in the list of a field with their locations, such as `dev.json: data[3]`."""
    separator = "." if "[" in where else ": "
    for number, value in enumerate(get_list(row, field, where)):
        place = f"{where}{separator}{field}[{number}]"
        yield check_object(value, place), place
