"""Configuration as frozen types: overriding keys, and validating settings.

Each component declares its settings as a `Config` next to its code; alternatives are tagged unions with a `kind`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from annotated_types import Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from dragoman.config_errors import Hint, explain, no_hint
from dragoman.config_keys import alternatives, is_config, kinds_of, list_members, tag_of
from dragoman.config_trees import Tree, as_group, merge, nest
from dragoman.errors import ConfigError, fold, shorten_text
from dragoman.yaml_files import MAX_DEPTH, YamlError, parse_yaml

MAX_NUMBER = 1_000_000_000
"""Maximum of every setting without a maximum of its own: a greater one asks for more than any machine has."""


class Config(BaseModel):
    """Base class of frozen groups of settings, which refuse unknown keys with a ConfigError.

    `Field(description=...)` or the docstring below a key describes it: see `descriptions`. A group of several kinds
    without `kind` has the kind of its default, and a text in its place is its `kind`. Kinds, and other words that a key
    may have, are read without regard to case, and with `-` for `_`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    if not TYPE_CHECKING:  # type checkers know the fields as arguments

        def __init__(self, /, **settings):
            try:
                super().__init__(**settings)
            except ValidationError as error:
                raise ConfigError(*explain(type(self), error, where=type(self).__name__)) from error

        __init__.__pydantic_base_init__ = True  # so that pydantic validates groups in groups without a call

    @field_validator("*")
    @classmethod
    def _check_maximum(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int | float) and abs(value) > MAX_NUMBER and info.field_name is not None:
            bounds = cls.model_fields[info.field_name].metadata
            if not any(isinstance(bound, Le | Lt) for bound in bounds):
                raise PydanticKnownError("less_than_equal", {"le": MAX_NUMBER})
        return value

    @model_validator(mode="before")
    @classmethod
    def _name_kinds(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        filled = {name: _as_known(value, _words(cls).get(name, {})) for name, value in tree.items()}
        for name, default in _default_kinds(cls).items():
            value = as_group(filled.get(name))
            if isinstance(value, Mapping):
                filled[name] = {"kind": default, **value} if default else value
        for name in _lists_of_kinds(cls) & tree.keys():
            members = [filled[name]] if isinstance(filled[name], str) else filled[name]
            if isinstance(members, list | tuple):
                filled[name] = [as_group(_as_known(member, _words(cls)[name])) for member in members]
        return filled


@cache
def _default_kinds(group: type[Config]) -> dict[str, str | None]:
    """Return the keys of a group that have kinds, and the kind of their defaults."""
    fields = group.model_fields.items()
    return {name: tag_of(type(field.default)) for name, field in fields if _has_kinds(field.annotation)}


@cache
def _lists_of_kinds(group: type[Config]) -> frozenset[str]:
    """Return the keys of a group that are lists of groups with kinds."""
    members = {name: list_members(field.annotation) for name, field in group.model_fields.items()}
    return frozenset(name for name, annotations in members.items() if any(map(_has_kinds, annotations)))


@cache
def _words(group: type[Config]) -> dict[str, dict[str, str]]:
    """Return the words that each key of a group may have, or the kinds, by `fold`; not of a key that takes any text."""
    found = {}
    for name, field in group.model_fields.items():
        members = [*alternatives(field.annotation), *list_members(field.annotation)]
        members += [inner for one in list_members(field.annotation) for inner in alternatives(one)]
        if str not in members:
            words = [word for one in members if get_origin(one) is Literal for word in get_args(one)]
            known = [*(word for word in words if isinstance(word, str)), *filter(None, map(tag_of, members))]
            found[name] = {fold(word): word for word in known}
    return found


def _as_known(value: Any, known: Mapping[str, str]) -> Any:
    """Return a word, or a group with its kind, as it is spelled among the known ones."""
    if isinstance(value, str):
        return known.get(fold(value), value)
    if isinstance(value, Mapping) and isinstance(kind := value.get("kind"), str) and fold(kind) in known:
        return {**value, "kind": known[fold(kind)]}
    return value


def _has_kinds(annotation: Any) -> bool:
    return bool(kinds_of(annotation)) and str not in alternatives(annotation)


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


def override(tree: Mapping[str, Any], assignments: Iterable[str]) -> Tree:
    """Return a tree with assignments such as `training.warmup=2000`, whose values are YAML.

    Assignments are merged first, so that a kind and its keys may come in any order.
    """
    over: Tree = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        parts, shown = key.strip().split("."), shorten_text(assignment)
        if not equals or not all(parts):
            raise ConfigError(f"--set {shown}: expected KEY=VALUE, for example training.seed=2")
        if len(parts) > MAX_DEPTH:
            raise ConfigError(f"--set {shown}: the key has more than {MAX_DEPTH} parts; shorten it")
        try:
            value = parse_yaml(text)
        except YamlError as error:
            raise ConfigError(
                f"--set {shown}: the value is not valid YAML ({error}); put the whole in quotes"
            ) from error
        over = merge(over, nest(key.strip(), value))
    return merge(tree, over)


def parse(
    kind: type[_C], tree: Mapping[str, Any], *, where: str = "", hint: Hint = no_hint, also: Sequence[str] = ()
) -> _C:
    """Validate a tree as `kind`. Raises ConfigError with one line per error, prefixed by `where`.

    `hint` may explain an unknown key, dotted, before the nearest known key is suggested. `also` are keys that are known
    although they are not part of the tree.
    """
    try:
        return kind.model_validate(dict(tree) if isinstance(tree, Mapping) else tree)
    except ValidationError as error:
        raise ConfigError(*explain(kind, error, where=where, hint=hint, also=also)) from error
