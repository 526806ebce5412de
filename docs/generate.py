"""Write docs/reference/configuration.md from the configuration models; `--check` only says whether it is current.

Every `Config` reachable from the tasks of `dragoman.runs.config` is shown where its key stands: a table of keys,
and a table a kind where one of several kinds is chosen. What several tasks have alike is shown with the first of them.
"""

import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dragoman.config import Config, alternatives, descriptions, is_config, kinds_of

TARGET = Path(__file__).parent / "reference" / "configuration.md"
COMMAND = "make docs"
INTRODUCTION = f"""# Configuration

<!-- Written by `{COMMAND}` from the configuration models; edits here are lost. -->

Every key of a configuration file, with its default. A file gives the keys that differ; `--set key=value` on the command
line overrides any of them, for example `--set training.seed=2`. The key `task` says what the run is about; without it,
that is translation. The key `preset` lays a file over the choices of a preset, whose names follow. Where a group offers
several kinds, its key `kind` says which one is meant, and only the keys of that kind may stand beside it; where `kind`
is left out, that of the default is meant. The configuration that a run was trained with, defaults written out, is in
its `config.yaml`.
"""
SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "multiple_of": "a multiple of", "min_length": "length ≥"}
PLAIN = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path"}


@dataclass
class Shown:
    """What was shown already, so that it need not be shown again."""

    task: str = ""
    """Of which task it is being shown now."""
    groups: dict[tuple[str, tuple[type[Config], ...]], str] = field(default_factory=dict)
    """The task with which the groups of a key were shown."""


def page(tasks: Mapping[str, type[Config]], presets: Mapping[str, Sequence[str]]) -> str:
    """The whole page: the presets with the tasks that they are for, then every task."""
    shown = Shown()
    parts = [INTRODUCTION, "| preset | for task |", "| --- | --- |"]
    parts += [f"| `{name}` | {_listed(of)} |" for name, of in presets.items()]
    for name, root in tasks.items():
        shown.task = name
        parts += [f"\n# task: {name}\n", *_group(root, "", shown)]
    return "\n".join(parts)


def reference(root: type[Config]) -> str:
    """The page of one group alone."""
    return "\n".join([INTRODUCTION, *_group(root, "", Shown())])


def _group(kind: type[Config], path: str, shown: Shown, *, within: str = "") -> Iterator[str]:
    """The table of a group's keys, then the groups below it; `within` names the kind that they are below."""
    if kind.__doc__:
        yield f"{_paragraphs(kind.__doc__)}\n"
    fields = {name: one for name, one in kind.model_fields.items() if name not in ("kind", "task")}
    yield _table(fields, descriptions(kind)) if fields else "No further keys.\n"
    for name, field_ in fields.items():
        key = f"{path}.{name}" if path else name
        yield from _below(key, field_.annotation, shown, within=within)


def _below(key: str, annotation: Any, shown: Shown, *, within: str) -> Iterator[str]:
    groups = _groups_in(annotation)
    if not groups:
        return
    yield f"## {key}{within}\n"
    before = shown.groups.setdefault((key, tuple(groups)), shown.task)
    if before != shown.task:
        yield f"As for task {before}.\n"
    elif len(groups) == 1:
        yield from _group(groups[0], key, shown, within=within)
    else:
        for group in groups:
            kind = kinds_of(group)[0]
            yield f"### {key}: {{kind: {kind}}}\n"
            yield from _group(group, key, shown, within=f" of {{kind: {kind}}}")


def _groups_in(annotation: Any) -> list[type[Config]]:
    found = []
    for member in alternatives(annotation):
        if is_config(member):
            found.append(member)
        else:
            found.extend(group for argument in typing.get_args(member) for group in _groups_in(argument))
    return found


def _table(fields: dict[str, FieldInfo], meanings: Mapping[str, str]) -> str:
    rows = [["key", "value", "default", "meaning"], ["---"] * 4]
    rows += [[f"`{name}`", _value(field), _default(field), meanings[name]] for name, field in fields.items()]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"


def _value(field: FieldInfo) -> str:
    words, limits = _type(field.annotation), _limits(field.metadata)
    optional = " or `null`" if limits and words.endswith(" or `null`") else ""
    return " ".join(filter(None, [words.removesuffix(optional), limits])) + optional


def _type(annotation: Any) -> str:
    """An annotation in words, with the limits that stand inside it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    kinds = kinds_of(annotation)
    if kinds:
        return "a group, " + (f"`kind: {kinds[0]}`" if len(kinds) == 1 else f"one kind of {_listed(kinds)}")
    if is_config(annotation):
        return "a group"
    if origin is typing.Annotated:
        return " ".join(filter(None, [_type(arguments[0]), _limits(arguments[1:])]))
    if origin is typing.Literal:
        return _listed([_yaml(argument) for argument in arguments])
    if origin in (typing.Union, types.UnionType):
        return " or ".join("`null`" if argument is types.NoneType else _type(argument) for argument in arguments)
    if origin in (list, tuple):
        return f"list of: {_type(arguments[0])}"
    if origin is dict:
        return f"mapping to: {_type(arguments[1])}"
    return PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _limits(metadata: Sequence[Any]) -> str:
    """What pydantic checks beyond the type; nested limits such as those of `Field` lie inside `metadata` in turn."""
    signs = [
        f"{sign} {getattr(limit, name)}"
        for limit in metadata
        for name, sign in SIGNS.items()
        if getattr(limit, name, None) is not None
    ]
    nested = [_limits(limit.metadata) for limit in metadata if isinstance(limit, FieldInfo)]
    return ", ".join(filter(None, [*signs, *nested]))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Config):
        return f"`kind: {kinds_of(type(default))[0]}`" if kinds_of(type(default)) else "see below"
    return "" if default is PydanticUndefined else f"`{_yaml(default)}`"


def _yaml(value: Any) -> str:
    """A default as it would stand in a configuration file, on one line."""
    if isinstance(value, list | tuple):
        value = [item.model_dump(mode="json") if isinstance(item, Config) else item for item in value]
    text = yaml.safe_dump(str(value) if isinstance(value, Path) else value, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _paragraphs(docstring: str) -> str:
    """A docstring without the indentation of its later lines."""
    return "\n".join(line.strip() for line in docstring.strip().splitlines())


def committed() -> str:
    """The page as it must lie in the repository."""
    from dragoman.runs.presets import PRESETS
    from dragoman.tasks.config import TASK_CONFIGS

    return page(TASK_CONFIGS, {name: preset.tasks for name, preset in PRESETS.items()})


def main() -> int:
    """Write the page, or check it; the exit code."""
    text = committed()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        print(f"written: {TARGET}")
        return 0
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET}: is not what the models say; write it anew with: {COMMAND}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
