"""YAML: reading of mappings, whose size is bounded after its aliases are expanded, and writing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dragoman.errors import ConfigError, shorten, shorten_text
from dragoman.untrusted_files import INTEGERS, MAX_NUMBER, MEBIBYTE, FileKind

USER_CONFIG = FileKind(MEBIBYTE, error=ConfigError, is_user_file=True)
"""Configuration or recipe that the user names, which may be a link or a pipe."""
RUN_CONFIG = FileKind(MEBIBYTE, error=ConfigError)
"""Configuration in a run folder."""
MAX_DEPTH = 100
"""Maximum nesting; the loader in C is limited by its stack alone."""
MAX_NODES = 20_000
"""Maximum number of keys and values, after aliases are replaced by copies."""
_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loader in C if PyYAML has it, ten times as fast."""
_INT, _FLOAT, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "merge"))


class YamlError(Exception):
    """Text that is not valid YAML, or too large; `line` is the line from 1, if known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class _Loader(_SAFE):  # type: ignore[misc]
    """Safe loader that refuses repeated keys, which YAML forbids but PyYAML accepts, and long numbers."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _MERGE:
                key = self.construct_object(key_node, deep=deep)
                if key in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"{shorten_text(str(key))} is given twice", problem_mark=key_node.start_mark
                    )
                seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag in (_INT, _FLOAT) and len(node.value) > MAX_NUMBER:
            raise _too_large(node)
        return super().construct_scalar(node)

    def construct_int(self, node: yaml.ScalarNode) -> int:
        value: int = self.construct_yaml_int(node)
        if value not in INTEGERS:
            raise _too_large(node)
        return value


_Loader.add_constructor(_INT, _Loader.construct_int)


def _too_large(node: yaml.ScalarNode) -> yaml.MarkedYAMLError:
    problem = f"the number {shorten_text(node.value)} is too large"
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text. Raises YamlError if it is invalid or too large."""
    try:
        text.encode()
    except UnicodeEncodeError as error:  # bytes of a command line that are not text
        raise YamlError("not UTF-8") from error
    try:
        _check_size(yaml.parse(text, Loader=_Loader))
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise YamlError(problem, None if mark is None else mark.line + 1) from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:  # the library, such as for `!!int x`
        raise YamlError(f"a value does not fit its type: {shorten_text(str(error))}") from error


@dataclass(frozen=True)
class _Size:
    nodes: int = 0
    characters: int = 0

    def __add__(self, other: "_Size") -> "_Size":
        return _Size(self.nodes + other.nodes, self.characters + other.characters)

    def __sub__(self, other: "_Size") -> "_Size":
        return _Size(self.nodes - other.nodes, self.characters - other.characters)


def _check_size(events: Iterator[Any]) -> None:
    """Raise an error for deep nesting, and for too many nodes or characters with each alias counted as a copy."""
    total, open_nodes, sizes = _Size(), list[tuple[str | None, _Size]](), dict[str | None, _Size]()
    for event in events:
        match event:
            case yaml.ScalarEvent():
                size = sizes[event.anchor] = _Size(1, len(event.value))
                total += size
            case yaml.CollectionStartEvent():
                open_nodes.append((event.anchor, total))
                total += _Size(1)
            case yaml.CollectionEndEvent():
                anchor, before = open_nodes.pop()
                sizes[anchor] = total - before
            case yaml.AliasEvent():
                if any(anchor == event.anchor for anchor, _ in open_nodes):
                    raise _error(event, f"{shorten(event.anchor)} contains itself")
                total += sizes.get(event.anchor, _Size())
        if len(open_nodes) > MAX_DEPTH:
            raise _error(event, f"nested more than {MAX_DEPTH} deep")
        if total.nodes > MAX_NODES or total.characters > MEBIBYTE:
            raise _error(event, f"more than {MAX_NODES:,} keys and values, or a MiB of text, with all aliases")


def _error(event: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def read_yaml(path: Path, kind: FileKind = USER_CONFIG) -> dict[str, Any]:
    """Read the mapping in a YAML file; an empty file is an empty mapping. Raises ConfigError for anything else."""
    try:
        tree = parse_yaml(kind.read_text(path))
    except YamlError as error:
        place = "" if error.line is None else f", line {error.line}"
        raise ConfigError(f"{path}{place}: not valid YAML ({error}); correct the file") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path}: holds {type(tree).__name__}, not a mapping of keys to values; write it as training: {{seed: 2}}"
        )
    return tree


def to_yaml(tree: Mapping[str, Any]) -> str:
    """Return a tree as YAML, in its order."""
    return yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True)
