"""Configuration as frozen types: reading YAML, overriding keys, and messages that name the nearest known key.

This room knows no component. A component declares its settings as a `Config` beside its code; alternatives are tagged
unions with a `kind`.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import ConfigError

Tree = dict[str, Any]


class Config(BaseModel):
    """A frozen group of settings; unknown keys are refused, so that no setting is silently not obeyed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


C = TypeVar("C", bound=Config)


def read_yaml(path: Path) -> Tree:
    """The mapping in a YAML file, read by the safe loader; an empty file is an empty mapping."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: not valid YAML ({reason}); mend the file") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: holds {type(tree).__name__}, not a mapping of keys to values")
    return tree


def to_yaml(config: Config) -> str:
    """The full configuration as YAML, defaults written out, in declaration order."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """`base` with the keys of `over` laid over it; a mapping of another `kind` replaces instead of merging."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        same_kind = isinstance(below, Mapping) and isinstance(value, Mapping)
        if same_kind and value.get("kind", below.get("kind")) == below.get("kind"):
            result[key] = merge(below, value)
        else:
            result[key] = value
    return result


def override(tree: Mapping[str, Any], assignments: Iterable[str]) -> Tree:
    """Lay assignments such as `training.warmup=2000` over a tree; the value is read as YAML."""
    result = dict(tree)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {assignment}: expected KEY=VALUE, for example training.seed=2")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {assignment}: the value is not valid YAML") from error
        for part in reversed(key.split(".")):
            value = {part: value}
        result = merge(result, value)
    return result


def parse(kind: type[C], tree: Mapping[str, Any], *, where: str = "") -> C:
    """Validate a tree as `kind`. Raises ConfigError with one line for each fault, prefixed by `where`."""
    try:
        return kind.model_validate(dict(tree))
    except ValidationError as error:
        prefix = f"{where}: " if where else ""
        lines = [prefix + _explain(kind, dict(fault)) for fault in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _explain(kind: type[Config], fault: Mapping[str, Any]) -> str:
    location = [part for part in fault["loc"] if not _is_tag(part, fault["loc"], kind)]
    path = ".".join(str(part) for part in location)
    if fault["type"] == "extra_forbidden":
        known = _keys_at(kind, fault["loc"][:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        prefix = ".".join(str(part) for part in location[:-1])
        remedy = f"Did you mean {'.'.join(filter(None, [prefix, near[0]]))}?" if near else f"Known: {', '.join(known)}."
        return f"{path}: no such key. {remedy}"
    if fault["type"] == "missing":
        return f"{path}: is required and not given"
    if fault["type"].startswith("union_tag"):
        return f"{path}.kind: {fault['ctx'].get('tag', 'not given')!r} is not one of {fault['ctx'].get('expected_tags', 'the known kinds')}"
    message = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    value = fault.get("input")
    if fault["type"] in ("value_error", "assertion_error"):
        return f"{path}: {message}" if path else message
    return f"{path} = {value!r}: {message[0].lower()}{message[1:]}"


def _is_tag(part: Any, location: Sequence[Any], kind: type[Config]) -> bool:
    """Pydantic writes the tag of a union into the location; a person's key path does not hold it."""
    index = list(location).index(part)
    before = _types_at(kind, location[:index])
    return isinstance(part, str) and len(before) > 1 and any(_tag(option) == part for option in before)


def _keys_at(kind: type[Config], location: Sequence[Any]) -> list[str]:
    return sorted({name for option in _types_at(kind, location) for name in option.model_fields})


def _types_at(kind: type[Config], location: Sequence[Any]) -> list[type[Config]]:
    """The groups of settings that may stand at a location."""
    options: list[type[Config]] = [kind]
    for part in location:
        tagged = [option for option in options if len(options) > 1 and _tag(option) == part]
        if tagged:
            options = tagged
            continue
        annotations = [option.model_fields[part].annotation for option in options if part in option.model_fields]
        options = [inner for annotation in annotations for inner in configs_in(annotation)]
    return options


def configs_in(annotation: Any) -> list[type[Config]]:
    """The `Config` types inside an annotation such as `A | B | None` or `list[A]`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias) and issubclass(annotation, Config):
        return [annotation]
    return [config for argument in typing.get_args(annotation) for config in configs_in(argument)]


def _tag(kind: type[Config]) -> str | None:
    field = kind.model_fields.get("kind")
    return None if field is None else str(field.default)
