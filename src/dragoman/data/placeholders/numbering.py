"""Numbers in placeholders that get their values by their order: `%s … %d` becomes `%1$s … %2$d`, and `{}` `{0}`.

A translation whose words are in another order then shows the right values. All of a text are numbered, or none.
"""

import re
from collections.abc import Sequence
from typing import Final

from dragoman.data.placeholders.recognition import Placeholder

_SPECIFIER: Final = re.compile(r"%([-+\#0 ',]*+\d*+(?:\.\d++)?+(?:hh?|ll?|[qLjzt])?[diouxXeEfFgGaAcCsSp@])")
"""Conversion of printf without number and without `*`; those of `strftime` cannot be numbered."""
_NUMBERED: Final = re.compile(r"%\d+\$")
_EMPTY_FIELD: Final = re.compile(r"\{((?:![rsa])?(?::[^{}]*)?)\}")


def number_placeholders(placeholders: Sequence[Placeholder]) -> dict[int, str] | None:
    """Return what stands in place of the placeholders of a text, by their starts, if they are numbered.

    None where there are none to number, or one that cannot be.
    """
    specifiers = [one for one in placeholders if one.kind == "printf" and one.text != "%%"]
    fields = [one for one in placeholders if one.kind == "brace"]
    found: dict[int, str] = {}
    for number, one in enumerate(specifiers, 1):
        if (match := _SPECIFIER.fullmatch(one.text)) is None:
            return None
        found[one.start] = f"%{number}${match[1]}"
    empty = [match for one in fields if (match := _EMPTY_FIELD.fullmatch(one.text)) is not None]
    if empty and len(empty) < len(fields):
        return None
    for number, (one, match) in enumerate(zip(fields, empty, strict=False)):
        found[one.start] = f"{{{number}{match[1]}}}"
    return found or None


def remove_numbers(text: str) -> str:
    """Return a placeholder of printf or a field without its number."""
    return re.sub(r"^\{\d+(?=[!:}])", "{", _NUMBERED.sub("%", text))
