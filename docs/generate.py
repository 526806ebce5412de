"""Write docs/reference/configuration.md from the configuration models; `--check` only compares.

Each group of keys has a section with a table of its keys; a group of several kinds has one table per kind. A group
that several tasks share is shown with the first of these tasks.
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

All keys of a configuration file, with their defaults. A file contains only the keys that differ from their defaults.

- `--set key=value` on the command line overrides any key, for example `--set training.seed=2`.
- The key `task` selects the task. The default is `translation`.
- The key `preset` selects a preset; the file then overrides the values of the preset.
- A group with several kinds is selected by its key `kind`, and accepts the keys of that kind only. Without `kind`, the
  group has the kind of its default.
- The file `config.yaml` of a run holds the complete configuration of its training, with all defaults.
"""
SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "multiple_of": "a multiple of", "min_length": "length ≥"}
PLAIN = {int: "integer", float: "number", str: "string", bool: "`true` or `false`", Path: "path"}


@dataclass
class Shown:
    """The groups that the page contains already."""

    task: str = ""
    """The task whose section is being written."""
    groups: dict[tuple[str, tuple[type[Config], ...]], str] = field(default_factory=dict)
    """From a key and its groups to the task in whose section they are shown."""


def page(tasks: Mapping[str, type[Config]], presets: Mapping[str, Sequence[str]]) -> str:
    """Return the page: a table of presets with their tasks, then a section per task."""
    shown = Shown()
    parts = [INTRODUCTION, "| preset | tasks |", "| --- | --- |"]
    parts += [f"| `{name}` | {_listed(of)} |" for name, of in presets.items()]
    for name, root in tasks.items():
        shown.task = name
        parts += [f"\n# task: {name}\n", *_group(root, "", shown)]
    return "\n".join(parts)


def reference(root: type[Config]) -> str:
    """Return the page of a single group."""
    return "\n".join([INTRODUCTION, *_group(root, "", Shown())])


def _group(kind: type[Config], path: str, shown: Shown, *, within: str = "") -> Iterator[str]:
    """Yield the table of a group's keys, then its nested groups; `within` is the kind of the enclosing group."""
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
        yield f"See task {before}.\n"
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
    """Describe an annotation in words, with the limits in its metadata."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    kinds = kinds_of(annotation)
    if kinds:
        return f"group of kind {_listed(kinds)}"
    if is_config(annotation):
        return "group"
    if origin is typing.Annotated:
        return " ".join(filter(None, [_type(arguments[0]), _limits(arguments[1:])]))
    if origin is typing.Literal:
        return _listed([_yaml(argument) for argument in arguments])
    if origin in (typing.Union, types.UnionType):
        return " or ".join("`null`" if argument is types.NoneType else _type(argument) for argument in arguments)
    if origin in (list, tuple):
        first, space, rest = _type(arguments[0]).partition(" ")
        return f"list of {first}{'s' if first.isalpha() else ''}{space}{rest}"
    if origin is dict:
        return f"mapping from string to {_type(arguments[1])}"
    return PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _limits(metadata: Sequence[Any]) -> str:
    """Describe the constraints that pydantic checks; a `FieldInfo` nests further metadata."""
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
    """Format a default as YAML on one line."""
    if isinstance(value, list | tuple):
        value = [item.model_dump(mode="json") if isinstance(item, Config) else item for item in value]
    text = yaml.safe_dump(str(value) if isinstance(value, Path) else value, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _paragraphs(docstring: str) -> str:
    """Remove the indentation of a docstring."""
    return "\n".join(line.strip() for line in docstring.strip().splitlines())


def committed() -> str:
    """Return the page that belongs in the repository."""
    from dragoman.runs.presets import PRESETS
    from dragoman.tasks.config import TASK_CONFIGS

    return page(TASK_CONFIGS, {name: preset.tasks for name, preset in PRESETS.items()})


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    text = committed()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        print(f"written: {TARGET}")
        return 0
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET} does not match the configuration models. Run: {COMMAND}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
