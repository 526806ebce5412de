"""Constraints as JSON: those of a file, a list for each input line, and those of a request."""

import json
from pathlib import Path
from typing import Any, get_args

from dragoman.data.readers.json_fields import check_object, check_text
from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.decoding.constraints import PhraseKind
from dragoman.errors import ConfigError, DataError
from dragoman.inference.control.text_constraints import Constraint

_FIELDS = ("forms", "kind", "whole_words", "bonus")


def read_constraint_file(path: Path) -> list[list[Constraint]]:
    """Read the constraints of each input line: a JSON list, or an empty line for none.

    An item is a text, or an object with the fields of `Constraint`. Raises DataError on anything else.
    """
    found = [_read_list(line, f"{path}:{number}") for number, line in read_lines(path, ReadWarnings())]
    if not found:
        raise DataError(f"{path}: is empty. Give one line for each line of the input.")
    return found


def _read_list(line: str, where: str) -> list[Constraint]:
    if not line.strip():
        return []
    try:
        items = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f'{where}: is no JSON list. Write the constraints of a text as ["word", …].') from error
    if not isinstance(items, list):
        raise DataError(f'{where}: has a JSON {type(items).__name__}, not a list. Write ["word", …].')
    return [read_constraint(item, f"{where}: [{number}]") for number, item in enumerate(items)]


def read_constraint(item: Any, where: str) -> Constraint:
    """Return the constraint of a text, or of an object. Raises DataError, which names the place `where` it stands."""
    if isinstance(item, str):
        return Constraint(check_text(item, "forms", where))
    row = check_object(item, where)
    if unknown := sorted(row.keys() - set(_FIELDS)):
        raise DataError(f"{where}: has the field {unknown[0]!r:.60}. Fields are {', '.join(_FIELDS)}.")
    forms = row.get("forms", ())
    texts = [check_text(one, "forms", where) for one in ([forms] if isinstance(forms, str) else _items(forms, where))]
    kind, whole_words, bonus = row.get("kind", "required"), row.get("whole_words", True), row.get("bonus")
    if kind not in get_args(PhraseKind):
        raise DataError(f"{where}: has the kind {kind!r:.60}. Choose {' or '.join(get_args(PhraseKind))}.")
    if not isinstance(whole_words, bool):
        raise DataError(f"{where}: whole_words is {whole_words!r:.60}. Write true or false.")
    if bonus is not None and (isinstance(bonus, bool) or not isinstance(bonus, int | float)):
        raise DataError(f"{where}: bonus is {bonus!r:.60}. Write a number.")
    try:
        return Constraint(texts, kind, whole_words, None if bonus is None else float(bonus))
    except (ConfigError, OverflowError) as error:
        raise DataError(f"{where}: {error}") from error


def _items(forms: Any, where: str) -> list[Any]:
    if not isinstance(forms, list | tuple) or not forms:
        raise DataError(f'{where}: has no forms. Write "forms": ["word", …].')
    return list(forms)
