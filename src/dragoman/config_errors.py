"""Errors of settings: one line for each, with the key, the source of its value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from dragoman.config_keys import alternatives, is_config, keys_of, kinds_of, tag_of, walk
from dragoman.config_trees import is_set
from dragoman.errors import ConfigError, Problem, shorten, shorten_text
from dragoman.option_synonyms import suggest_keys, suggest_kinds

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Hint = Callable[[str], str | None]
"""Function from an unknown key to a hint for its message, or None."""


def no_hint(_key: str) -> str | None:
    """Return no hint for any key."""
    return None


@contextmanager
def name_origins(origins: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Begin each line of a ConfigError about the value of a key with the source of this value.

    `origins` are the sources in the order in which they override each other, by their words in the message, such as
    `recipe.yaml: ` or `--set `. The last one that sets a key of the error is its source; without any, it is the first.
    """
    try:
        yield
    except ConfigError as error:
        lines = [replace(one, origin=one.origin or _find_origin(one.keys, origins)) for one in error.problems]
        raise ConfigError(*lines) from error


def _find_origin(keys: Collection[str], origins: Mapping[str, Mapping[str, Any]]) -> str:
    wanted = set(keys)
    while wanted:
        sources = [name for name, tree in origins.items() if any(is_set(tree, key) for key in wanted)]
        if sources:
            return sources[-1]
        wanted = {key.rpartition(".")[0] for key in wanted if "." in key}
    return next(iter(origins), "") if keys else ""


MAX_LINES = 3
"""Lines of a message; further errors are counted."""
MAX_LINE = 1_000
"""Characters of a line, which may contain values of the user."""
MAX_ALTERNATIVES = 20
"""Errors of one key that are explained; each alternative of a union gives one."""


def explain(
    kind: type[BaseModel], error: ValidationError, *, where: str = "", hint: Hint = no_hint, also: Sequence[str] = ()
) -> list[Problem]:
    """Return one problem per location, which begins with `where`; a union gives one error for each alternative."""
    errors: dict[str, list[dict[str, Any]]] = {}
    for found in error.errors():
        path, _ = walk(kind, found["loc"])
        key = ".".join(path)
        if found["type"] == "too_short" and any(other.startswith(f"{key}.") for other in errors):
            continue  # follows from the invalid members
        errors.setdefault(key, []).append(dict(found))
    lines = [_explain_key(kind, key, some, hint=hint, also=also) for key, some in islice(errors.items(), MAX_LINES)]
    rest = len(errors) - MAX_LINES + 1
    if rest > 1:
        lines[MAX_LINES - 1 :] = [Problem(f"{rest} more errors. Correct these first.")]
    return [replace(line, origin=f"{where}: " if where else "") for line in lines]


def _explain_key(
    kind: type[BaseModel], key: str, errors: Sequence[Mapping[str, Any]], *, hint: Hint, also: Sequence[str]
) -> Problem:
    described = [_describe(kind, error["loc"], error, hint=hint, also=also) for error in errors[:MAX_ALTERNATIVES]]
    (subject, first), more = described[0], [rule for _, rule in described[1:]]
    rules = " or ".join([first, *(rule.removeprefix("must be ") for rule in dict.fromkeys(more))])
    named = not key or (not subject and rules.startswith(f"{key}."))  # a message about several keys names them
    pairs = zip(errors, described, strict=False)
    keys = set[str]().union(*(_keys_in(rule, key) for error, (_, rule) in pairs if error["type"] == "value_error"))
    line = "\\n".join((rules if named else f"{key}{subject}: {rules}").splitlines())  # a key may contain line breaks
    return Problem(shorten_text(line, MAX_LINE), tuple(keys or {key}))


def _keys_in(message: str, group: str) -> set[str]:
    """Return the words in a message about several keys of a group that may be keys."""
    dotted = re.findall(r"\b[a-z_]\w*(?:\.\w+)+", message)
    plain = re.findall(r"(?<![\w.])([a-z]\w*(?= = )|[a-z]+_\w+)(?!\.\w)", message)
    return {*dotted, *plain, *(f"{group}.{name}" for name in plain)}


def _describe(
    root: type[BaseModel], location: Sequence[Any], error: Mapping[str, Any], *, hint: Hint, also: Sequence[str]
) -> tuple[str, str]:
    """Return what to write after the key of a location, such as its value, and the rule that is broken."""
    path, here = walk(root, location)
    value = error.get("input")
    match error["type"]:
        case "extra_forbidden":
            return "", f"no such key. {_suggest(root, location, hint=hint, also=also)}"
        case "missing":
            return "", "is required and not given"
        case "union_tag_invalid" | "union_tag_not_found":
            files = [tag_of(one) or "" for one in alternatives(here) if is_config(one) and "path" in one.model_fields]
            if files and isinstance(value, Mapping) and re.search(r"[./\\]", str(value.get("kind"))):
                return _describe_path(str(value["kind"]), ".".join(path), files)
            return _unknown_kind(value, kinds_of(here))
        case "model_type" | "model_attributes_type":
            return f" = {shorten(value)}", _describe_group(".".join(path), here)
        case "invalid_key":
            return "", f"the key {shorten(value)} is not a word; quote or correct it"
        case "literal_error" if path[-1:] == ["kind"]:
            return _unknown_kind({"kind": value}, list(dict.fromkeys(kinds_of(walk(root, location[:-1])[1]))), "")
        case "value_error" | "assertion_error":
            return "", describe_rule(error)
        case _:
            return f" = {shorten(value)}", describe_rule(error)


def _describe_group(key: str, group: Any) -> str:
    """Return what to write in place of a value for a group of settings."""
    kinds = kinds_of(group)
    if len(kinds) > 1:
        return f"expected one of {', '.join(kinds)}, or a mapping, such as {{kind: {kinds[0]}}}"
    keys = list(group.model_fields) if is_config(group) else []
    return f"is a group of settings. Set one of its keys: {', '.join(f'{key}.{name}'.lstrip('.') for name in keys)}."


_TYPES = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "path": "a path",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "mapping": "a mapping",
    "none": "empty",
}
_BOUNDS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def describe_rule(error: Mapping[str, Any]) -> str:
    """Return the rule that a value breaks, in the words of this program, from an error of pydantic."""
    kind, limits = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        key, word = _BOUNDS[kind]
        limit = limits[key]
        if key == "gt" and isinstance(limit, int):
            return f"must be at least {limit + 1}"
        return f"must be {word} {limit:g}" if isinstance(limit, float) else f"must be {word} {limit}"
    match kind:
        case "literal_error" | "enum":
            return f"must be {limits['expected']}"
        case "finite_number":
            return "must be a finite number"
        case "too_short" | "too_long":
            bound = f"at least {limits['min_length']}" if kind == "too_short" else f"at most {limits['max_length']}"
            return f"has {limits['actual_length']} entries and needs {bound}"
    if (article := _TYPES.get(kind.partition("_")[0])) is not None:
        return f"must be {article}"
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return message if kind in ("value_error", "assertion_error") else f"{message[0].lower()}{message[1:]}"


def _describe_path(name: str, group: str, kinds: Sequence[str]) -> tuple[str, str]:
    """Describe a path in place of a group that names a file; `kinds` are its formats."""
    kind = next((one for one in kinds if name.endswith(f".{one}")), kinds[0])
    formats = f" Formats: {', '.join(kinds)}." if len(kinds) > 1 else ""
    return f" = {shorten(name)}", f"a file needs its format. Set {group}.kind={kind} and {group}.path={name}.{formats}"


def _unknown_kind(value: Any, kinds: Sequence[str], key: str = ".kind") -> tuple[str, str]:
    if not isinstance(value, Mapping) or "kind" not in value:
        return key, f"is required and not given; choose one of {', '.join(kinds)}"
    meant = suggest_kinds(str(value["kind"]), kinds)
    question = f"Did you mean {' or '.join(meant)}? " if meant else ""
    return f"{key} = {shorten(value['kind'])}", f"no such kind. {question}Known: {', '.join(kinds)}."


def _suggest(root: type[BaseModel], location: Sequence[Any], *, hint: Hint, also: Sequence[str]) -> str:
    """Return the probable key: of another kind, of another task, or by meaning and spelling."""
    path, group = walk(root, location[:-1])
    name, known = str(location[-1]), [*(() if path else also), *group.model_fields]
    if (owner := _owner(root, location)) is not None:
        return owner
    local = [".".join([*path, key]) for key in known]
    meant = suggest_keys(name, [*also, *keys_of(root)], group=".".join(path), local=local)
    is_near = meant and path and meant.startswith(f"{path[0]}.")
    if not is_near and (explanation := hint(".".join([*path, name]))) is not None:
        return explanation
    return f"Did you mean {meant}?" if meant else f"Known: {', '.join(sorted(known))}."


def _owner(root: type[BaseModel], location: Sequence[Any]) -> str | None:
    """Return the other kinds of an enclosing group that have the key at a location, as a sentence."""
    path, _ = walk(root, location)
    for place in range(len(location) - 2, 0, -1):
        above, union = walk(root, location[:place])
        tagged = {tag_of(option): option for option in alternatives(union)}
        if location[place] not in tagged or None in tagged:
            continue
        inside = path[len(above) :]
        owners = [str(tag) for tag, option in tagged.items() if ".".join(inside) in keys_of(option)]
        if owners:
            key = "kind" if len(inside) == 1 else f"{'.'.join(above)}.kind"
            return f"It belongs to {key} {' or '.join(owners)}, and this is {key} {location[place]}."
    return None
