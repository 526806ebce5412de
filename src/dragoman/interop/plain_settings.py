"""Settings of other programs as plain values, which a JSON file can hold."""

import math
from collections.abc import Mapping, Sized
from typing import Any

from dragoman.untrusted_files import INTEGERS


def plain_value(value: Any) -> str | int | float | bool | None:
    """Return a text, number, truth value or null as it is, and the name of the type of any other value.

    Null stands for empty collections and for values that JSON does not have: infinity, halves of characters.
    """
    match value:
        case None | bool():
            return value
        case str():
            return value if value.isascii() or _is_unicode(value) else None
        case int():
            return int(value) if value in INTEGERS else None
        case float():
            return float(value) if math.isfinite(value) else None
        case Sized() if isinstance(value, list | tuple | dict | set) and not value:
            return None
        case _:
            return type(value).__name__


def plain_tree(tree: Any, *, depth: int = 16) -> Any:
    """Return nested mappings and lists of plain values; what is deeper is a plain value itself."""
    if isinstance(tree, Mapping) and depth:
        return {str(plain_value(key)): plain_tree(value, depth=depth - 1) for key, value in tree.items()}
    if isinstance(tree, list) and depth:
        return [plain_tree(value, depth=depth - 1) for value in tree]
    return plain_value(tree)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
