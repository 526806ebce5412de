"""Trees of settings: nested mappings, their dotted keys, and merging them."""

from collections.abc import Mapping
from typing import Any

from dragoman.errors import fold

Tree = dict[str, Any]
MISSING = object()
"""Value of a key that is not set; None is a valid setting."""


def get_value(tree: Any, key: str) -> Any:
    """Return the value of a dotted key, or `MISSING`."""
    for part in key.split("."):
        tree = as_group(tree)
        if not isinstance(tree, Mapping) or part not in tree:
            return MISSING
        tree = tree[part]
    return tree


def is_set(tree: Mapping[str, Any], key: str) -> bool:
    """Return whether a dotted key is set."""
    return get_value(tree, key) is not MISSING


def nest(key: str, value: Any) -> Tree:
    """Return settings in which only a dotted key is set."""
    tree: Any = value
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return dict(tree)


def as_group(value: Any) -> Any:
    """Return the group that a value stands for: `cosine` is short for `{kind: cosine}`."""
    return {"kind": value} if isinstance(value, str) else value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Return `base` with the keys of `over`; mappings are merged, unless their `kind` differs.

    A text on one side of a mapping is its `kind`.
    """
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, Mapping) or isinstance(value, Mapping):
            below, value = as_group(below), as_group(value)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and not _other_kind(below, value):
            result[key] = merge(below, value)
        else:
            result[key] = value
    return result


def _other_kind(below: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "kind" in below and "kind" in value and fold(str(below["kind"])) != fold(str(value["kind"]))
