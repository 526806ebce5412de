"""Configuration as frozen types: reading YAML, overriding keys, and errors that name the nearest known key.

Each component declares its settings as a `Config` next to its code; alternatives are tagged unions with a `kind`.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from dragoman.errors import ConfigError, describe_unreadable, nearest

Tree = dict[str, Any]
Hint = Callable[[str], str | None]
"""Function from an unknown key to a hint for its message, or None."""


class Config(BaseModel):
    """Base class of frozen groups of settings, which refuse unknown keys.

    `Field(description=...)` or the docstring below a key describes it: see `descriptions`. A group of several kinds
    without `kind` has the kind of its default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _name_default_kinds(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        filled = dict(tree)
        for name, field in cls.model_fields.items():
            value, tag = tree.get(name), _tag(type(field.default))
            if isinstance(value, Mapping) and "kind" not in value and tag is not None:
                filled[name] = {"kind": tag, **value}
        return filled


_C = TypeVar("_C", bound=Config)


def descriptions(kind: type[Config]) -> dict[str, str]:
    """Return the description of each key of a group, or an empty string.

    Docstrings are read from the source on demand, because reading them at import would delay every command.
    """
    if all(field.description for field in kind.model_fields.values()):
        return {name: field.description or "" for name, field in kind.model_fields.items()}
    groups = [group for group in reversed(kind.__mro__) if is_config(group) and "[" not in group.__name__]
    below = {name: text for group in groups for name, text in _docstrings(group).items()}
    return {name: field.description or below.get(name, "") for name, field in kind.model_fields.items()}


@cache
def _docstrings(group: type[Config]) -> dict[str, str]:
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(group))).body
    assert isinstance(made, ast.ClassDef)
    found = {}
    for statement, after in pairwise(made.body):
        match statement, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loader in C if PyYAML has it, ten times as fast."""
MAX_DEPTH = 100
"""Maximum nesting of a file; the loader in C is limited by its stack alone."""


class _Loader(_SAFE):  # type: ignore[misc]
    """Safe loader that refuses repeated keys, which YAML forbids but PyYAML accepts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                key = self.construct_object(key_node, deep=deep)
                if key in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key} is given twice", problem_mark=key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _load(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError as error:  # bytes of a command line that are not text
        raise yaml.MarkedYAMLError(problem="not UTF-8") from error
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            place: Any = event.start_mark  # the loader in C has a class of its own
            raise yaml.MarkedYAMLError(problem=f"nested more than {MAX_DEPTH} deep", problem_mark=place)
    return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader


def read_yaml(path: Path) -> Tree:
    """Read the mapping in a YAML file; an empty file is an empty mapping. Raises ConfigError for anything else."""
    try:
        tree = _load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(describe_unreadable(path, error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"{path}{place}: not valid YAML ({_problem(error)}); correct the file") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path}: holds {type(tree).__name__}, not a mapping of keys to values; write it as training: {{seed: 2}}"
        )
    return tree


def _problem(error: yaml.YAMLError) -> str:
    return getattr(error, "problem", None) or " ".join(str(error).split())


def to_yaml(tree: Mapping[str, Any]) -> str:
    """Return a tree as YAML, in its order."""
    return yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Return `base` with the keys of `over`; mappings are merged, unless their `kind` differs."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and not _other_kind(below, value):
            result[key] = merge(below, value)
        else:
            result[key] = value
    return result


def _other_kind(below: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "kind" in below and "kind" in value and below["kind"] != value["kind"]


def override(tree: Mapping[str, Any], assignments: Iterable[str]) -> Tree:
    """Return a tree with assignments such as `training.warmup=2000`, whose values are YAML.

    Assignments are merged first, so that a kind and its keys may come in any order.
    """
    over: Tree = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            raise ConfigError(f"--set {assignment}: expected KEY=VALUE, for example training.seed=2")
        try:
            value = _load(text)
        except yaml.YAMLError as error:
            raise ConfigError(
                f"--set {assignment}: the value is not valid YAML ({_problem(error)}); put the whole in quotes"
            ) from error
        for part in reversed(parts):
            value = {part: value}
        over = merge(over, value)
    return merge(tree, over)


def parse(kind: type[_C], tree: Mapping[str, Any], *, where: str = "", hint: Hint = lambda _: None) -> _C:
    """Validate a tree as `kind`. Raises ConfigError with one line per error, prefixed by `where`.

    `hint` may explain an unknown key, dotted, before the nearest known key is suggested.
    """
    try:
        return kind.model_validate(dict(tree))
    except ValidationError as error:
        prefix = f"{where}: " if where else ""
        raise ConfigError("\n".join(prefix + line for line in _explain(kind, error, hint))) from error


MAX_LINES = 3
"""Lines of a message; further errors are counted."""


def _explain(kind: type[Config], error: ValidationError, hint: Hint) -> list[str]:
    """Return one line per location; a union gives one error for each of its alternatives."""
    errors: dict[str, tuple[str, list[str]]] = {}
    for found in error.errors():
        location = found["loc"]
        path, _ = _walk(kind, location)
        if found["type"] == "too_short" and any(key.startswith(f"{'.'.join(path)}.") for key in errors):
            continue  # follows from the invalid members
        subject, rule = _describe(kind, location, dict(found), hint)
        errors.setdefault(".".join(path), (subject, []))[1].append(rule)
    lines = []
    for key, (subject, (first, *more)) in errors.items():
        rules = " or ".join([first, *(rule.removeprefix("must be ") for rule in dict.fromkeys(more))])
        named = not key or (not subject and rules.startswith(f"{key}."))  # a message about several keys names them
        lines.append(rules if named else f"{key}{subject}: {rules}")
    rest = len(lines) - MAX_LINES + 1
    return lines if rest < 2 else [*lines[: MAX_LINES - 1], f"{rest} more errors. Correct these first."]


def _describe(root: type[Config], location: Sequence[Any], error: Mapping[str, Any], hint: Hint) -> tuple[str, str]:
    """Return what to write after the key of a location, such as its value, and the rule that is broken."""
    _, here = _walk(root, location)
    value = error.get("input")
    match error["type"]:
        case "extra_forbidden":
            return "", f"no such key. {_nearest(root, location, hint)}"
        case "missing":
            return "", "is required and not given"
        case "union_tag_invalid" | "union_tag_not_found":
            return _unknown_kind(value, kinds_of(here))
        case "model_type" | "model_attributes_type":
            kinds = kinds_of(here)
            example = f"{{kind: {value if value in kinds else kinds[0]}}}" if kinds else "{key: value}"
            return f" = {_short(value)}", f"expected a mapping, such as {example}"
        case "invalid_key":
            return "", f"the key {value!r} is not a word; quote or correct it"
        case "value_error" | "assertion_error":
            return "", describe_rule(error)
        case _:
            return f" = {_short(value)}", describe_rule(error)


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


def _unknown_kind(value: Any, kinds: Sequence[str]) -> tuple[str, str]:
    if not isinstance(value, Mapping) or "kind" not in value:
        return ".kind", f"is required and not given; choose one of {', '.join(kinds)}"
    near = nearest(str(value["kind"]), kinds)
    remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(kinds)}."
    return f".kind = {_short(value['kind'])}", f"no such kind. {remedy}"


def _nearest(root: type[Config], location: Sequence[Any], hint: Hint) -> str:
    """Return the probable key: of another kind, else a similar key of the group, else of another group."""
    path, group = _walk(root, location[:-1])
    name, known = str(location[-1]), sorted(group.model_fields)
    if (owner := _owner(root, location)) is not None:
        return owner
    if (explanation := hint(".".join([*path, name]))) is not None:
        return explanation
    similar = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    elsewhere = _elsewhere(root, name)
    sure = similar and difflib.SequenceMatcher(None, name, similar[0]).ratio() > 0.7
    meant = [".".join([*path, key]) for key in similar] if sure or not elsewhere else elsewhere
    return f"Did you mean {' or '.join(meant)}?" if meant else f"Known: {', '.join(known)}."


def _owner(root: type[Config], location: Sequence[Any]) -> str | None:
    """Return the other kinds of an enclosing group that have the key at a location, as a sentence."""
    path, _ = _walk(root, location)
    for place in range(len(location) - 2, 0, -1):
        above, union = _walk(root, location[:place])
        tagged = {_tag(option): option for option in alternatives(union)}
        if location[place] not in tagged or None in tagged:
            continue
        inside = path[len(above) :]
        owners = [str(tag) for tag, option in tagged.items() if ".".join(inside) in keys_of(option)]
        if owners:
            key = "kind" if len(inside) == 1 else f"{'.'.join(above)}.kind"
            return f"It belongs to {key} {' or '.join(owners)}, and this is {key} {location[place]}."
    return None


def _elsewhere(root: type[Config], name: str) -> list[str]:
    """Return the keys of any group with this or a similar name, unless there are more than three."""
    keys = [key for key in dict.fromkeys(keys_of(root)) if not key.endswith("kind")]
    names = {key.rpartition(".")[2] for key in keys}
    like = [name] if name in names else difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    found = [key for key in keys if key.rpartition(".")[2] in like]
    return found if len(found) <= 3 else []


def keys_of(kind: type[Config], prefix: str = "", above: Sequence[type[Config]] = ()) -> Iterator[str]:
    """Yield every dotted key of a group, except keys inside lists, which need a number."""
    for name, field in kind.model_fields.items():
        yield f"{prefix}{name}"
        for group in alternatives(field.annotation):
            if is_config(group) and group not in above:
                yield from keys_of(group, f"{prefix}{name}.", [*above, kind])


def _walk(kind: type[Config], location: Sequence[Any]) -> tuple[list[str], Any]:
    """Return the key path as written in a file, without the labels that pydantic adds for unions, and its type."""
    here: Any = kind
    path: list[str] = []
    for part in location:
        options = alternatives(here)
        if len(options) > 1:
            here = next((option for option in options if part in (_tag(option), getattr(option, "__name__", ""))), None)
        else:
            path.append(str(part))
            here = _inside(options[0], part)
    options = alternatives(here)
    return path, options[0] if len(options) == 1 else here  # an optional group


def _inside(annotation: Any, part: Any) -> Any:
    if is_config(annotation):
        return annotation.model_fields[part].annotation if part in annotation.model_fields else None
    arguments = typing.get_args(annotation)
    return arguments[-1 if isinstance(part, str) else 0] if arguments else None


def alternatives(annotation: Any) -> list[Any]:
    """Return the members of an annotation such as `A | B | None`, without None."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        return [inner for member in members for inner in alternatives(member)]
    return [annotation]


def is_config(annotation: Any) -> TypeGuard[type[Config]]:
    """Return whether an annotation is a group of settings."""
    return inspect.isclass(annotation) and not typing.get_origin(annotation) and issubclass(annotation, Config)


def kinds_of(annotation: Any) -> list[str]:
    """Return the kinds of a tagged union."""
    return [tag for tag in map(_tag, alternatives(annotation)) if tag is not None]


def _tag(annotation: Any) -> str | None:
    if not is_config(annotation) or "kind" not in annotation.model_fields:
        return None
    return str(typing.get_args(annotation.model_fields["kind"].annotation)[0])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
