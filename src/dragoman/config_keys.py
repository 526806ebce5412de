"""Keys of settings: the groups, kinds and dotted keys that configuration models declare."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from pydantic import BaseModel


def keys_of(kind: type[BaseModel], prefix: str = "", above: Sequence[type[BaseModel]] = ()) -> Iterator[str]:
    """Yield every dotted key of a group, except keys inside lists, which need a number."""
    for name, field in kind.model_fields.items():
        yield f"{prefix}{name}"
        for group in alternatives(field.annotation):
            if is_config(group) and group not in above:
                yield from keys_of(group, f"{prefix}{name}.", [*above, kind])


def walk(kind: type[BaseModel], location: Sequence[Any]) -> tuple[list[str], Any]:
    """Return the key path as written in a file, without the labels that pydantic adds for unions, and its type."""
    here: Any = kind
    path: list[str] = []
    for part in location:
        options = alternatives(here)
        if len(options) > 1:
            here = next(
                (option for option in options if part in (tag_of(option), getattr(option, "__name__", ""))), None
            )
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


def list_members(annotation: Any) -> list[Any]:
    """Return the types of the members of lists that an annotation allows."""
    lists = [one for one in alternatives(annotation) if typing.get_origin(one) in (list, tuple)]
    return [typing.get_args(one)[0] for one in lists]


def is_config(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Return whether an annotation is a group of settings."""
    return inspect.isclass(annotation) and not typing.get_origin(annotation) and issubclass(annotation, BaseModel)


def kinds_of(annotation: Any) -> list[str]:
    """Return the kinds of a tagged union."""
    return [tag for tag in map(tag_of, alternatives(annotation)) if tag is not None]


def tag_of(annotation: Any) -> str | None:
    """Return the kind of a group, or None if it has no kinds."""
    if not is_config(annotation) or "kind" not in annotation.model_fields:
        return None
    return str(typing.get_args(annotation.model_fields["kind"].annotation)[0])
