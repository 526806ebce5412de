"""The configuration of a run: every choice of every room, in one file.

What a run does is its `task`; each has settings of its own. A file that names none is about translation.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.config import Tree, keys_of, merge, override, parse, read_yaml
from dragoman.errors import ConfigError
from dragoman.runs.choices import value
from dragoman.runs.presets import DEFAULT_TASK, preset_tree, presets_of
from dragoman.tasks.config import (
    Answering,
    Classification,
    LanguageModelling,
    MaskedModelling,
    Tagging,
    Translation,
)

Experiment = Translation | LanguageModelling | MaskedModelling | Classification | Tagging | Answering
"""A run of any task, from its corpora to its scores."""

TASKS: dict[str, type[Experiment]] = {
    "translation": Translation,
    "language_modelling": LanguageModelling,
    "masked_modelling": MaskedModelling,
    "classification": Classification,
    "tagging": Tagging,
    "answering": Answering,
}
"""The settings of each task, by its name."""


EXPECTED = "expected"
"""The key of a recipe under which it says what scores it should reach; it is no setting."""


def read_tree(file: Path | None, assignments: Sequence[str]) -> Tree:
    """What a person asked for: a file, with `KEY=VALUE` assignments laid over it; a preset stays a name."""
    tree = read_yaml(file) if file is not None else {}
    return override({key: value for key, value in tree.items() if key != EXPECTED}, assignments)


def with_preset(tree: Mapping[str, Any]) -> Tree:
    """The tree laid over the preset that its key `preset` names, if any.

    Raises ConfigError where the tree asks for a model of another kind, to which nothing of the preset would apply.
    """
    rest = {key: value for key, value in tree.items() if key != "preset"}
    name, kind = tree.get("preset"), value(rest, "model.kind")
    if name is None:
        return rest
    under = preset_tree(name, task=tree.get("task"))
    others = presets_of(kind, task=under.get("task", DEFAULT_TASK))
    if others and name not in others:
        raise ConfigError(
            f"preset: {name} is a model of kind {under['model']['kind']}, and model.kind is {kind}; leave one of them "
            f"out, or choose {' or '.join(others)}"
        )
    return merge(under, rest)


def in_folder(tree: Mapping[str, Any], folder: Path) -> Tree:
    """The tree with the relative paths of its corpora taken from `folder`."""
    data = tree.get("data")
    if not isinstance(data, Mapping):
        return dict(tree)
    corpora: Tree = {
        name: {key: _placed(key, value, folder) for key, value in data[name].items()}
        for name in ("train", "valid", "test")
        if isinstance(data.get(name), Mapping)
    }
    if isinstance(beside := data.get("beside"), list | tuple):
        corpora["beside"] = [_placed_beside(one, folder) for one in beside]
    return {**tree, "data": {**data, **corpora}}


def to_experiment(tree: Mapping[str, Any], *, where: str = "") -> Experiment:
    """Validate as the settings of the task that the tree names; raises ConfigError, a line for each fault."""
    whole = with_preset(tree)
    task = whole.get("task", DEFAULT_TASK)
    if not isinstance(task, str) or task not in TASKS:
        near = difflib.get_close_matches(str(task), TASKS, n=1)
        remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(TASKS)}."
        raise ConfigError(f"{f'{where}: ' if where else ''}task = {task!r}: no such task. {remedy}")
    return parse(TASKS[task], whole, where=where, hint=lambda key: _of_other_tasks(key, task))


def read_experiment(file: Path) -> Experiment:
    """The configuration that a run wrote down."""
    return to_experiment(read_yaml(file), where=str(file))


def _of_other_tasks(key: str, task: str) -> str | None:
    """A sentence about a key that this task does not have, where others do."""
    owners = [name for name, settings in TASKS.items() if key in keys_of(settings)]
    return f"It belongs to task {' or '.join(owners)}, and this is task {task}." if owners else None


def _placed_beside(tree: Any, folder: Path) -> Any:
    corpus = tree.get("corpus") if isinstance(tree, Mapping) else None
    if not isinstance(corpus, Mapping):
        return tree
    return {**tree, "corpus": {key: _placed(key, value, folder) for key, value in corpus.items()}}


def _placed(key: str, value: Any, folder: Path) -> Any:
    if key not in ("source", "target", "source_trees", "path", "folder"):
        return value
    if isinstance(value, list | tuple):
        return [_placed(key, one, folder) for one in value]
    return str(folder / value) if isinstance(value, str) else value
