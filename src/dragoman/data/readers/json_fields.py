"""Values out of JSON, each checked where it is taken: a message says where, what was expected, and the remedy."""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.errors import DataError

JsonObject = Mapping[str, Any]


def parse_object(content: str | bytes, where: str) -> JsonObject:
    """The object that a JSON text is. Raises DataError where it is none."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise DataError(f"{where}: not valid JSON ({reason}); mend or remove it") from error
    return check_object(tree, where)


def check_object(value: Any, where: str) -> JsonObject:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: holds a JSON {type(value).__name__}, not an object with fields")
    return value


def get_value(row: JsonObject, field: str, where: str) -> Any:
    """What a field holds. Raises DataError, with the nearest field there is, where it is missing."""
    if field not in row:
        near = difflib.get_close_matches(field, list(row), n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(row) or 'none'}"
        raise DataError(f"{where}: no field {field!r}; {remedy}")
    return row[field]


def get_text(row: JsonObject, field: str, where: str) -> str:
    """The text of a field."""
    return check_text(get_value(row, field, where), field, where)


def check_text(value: Any, field: str, where: str) -> str:
    """The value, which must be a text that a file can hold."""
    if not isinstance(value, str):
        raise DataError(f"{where}: field {field!r} holds {type(value).__name__}, not a text; mend or remove it")
    if "\x00" in value:
        raise DataError(f"{where}: field {field!r} holds a NUL character, so it is no text; remove it")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DataError(
            f"{where}: field {field!r} holds half of a surrogate pair (\\ud800 to \\udfff); mend the escape"
        )
    return value


def check_index(value: Any, field: str, where: str) -> int:
    """The value, which must be a whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DataError(f"{where}: field {field!r} holds {value!r}, not a whole number from 0 on; mend or remove it")
    return value


def get_list(row: JsonObject, field: str, where: str) -> list[Any]:
    """The list of a field."""
    value = get_value(row, field, where)
    if not isinstance(value, list):
        raise DataError(f"{where}: field {field!r} holds {type(value).__name__}, not a list; mend or remove it")
    return value


def get_objects(row: JsonObject, field: str, where: str) -> Iterator[tuple[JsonObject, str]]:
    """The objects in the list of a field, each with its place in words, such as `dev.json: data[3]`."""
    separator = "." if "[" in where else ": "
    for number, value in enumerate(get_list(row, field, where)):
        place = f"{where}{separator}{field}[{number}]"
        yield check_object(value, place), place
