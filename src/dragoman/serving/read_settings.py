"""Settings of the server from a file, the environment and the command line."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.config import override, parse
from dragoman.config_trees import Tree, merge, nest
from dragoman.errors import ConfigError
from dragoman.runs.folder import RunFolder
from dragoman.serving.config import ModelConfig, ServerConfig
from dragoman.untrusted_files import MEBIBYTE, FileKind
from dragoman.yaml_files import YamlError, parse_yaml

ENVIRONMENT = "DRAGOMAN_SERVE_"
"""Beginning of the environment variables; `__` separates groups, as in DRAGOMAN_SERVE_LIMITS__MAX_TEXTS."""
_FILE = FileKind(MEBIBYTE, error=ConfigError, is_user_file=True)
_NAMED = re.compile(r"(?P<name>[\w.:@+-]+)=(?P<path>.+)", re.DOTALL)
_DEMO = re.compile(r"demo-(?P<source>[A-Za-z]+)-(?P<target>[A-Za-z]+(?:_[A-Za-z]+)?)")
_PAIR = re.compile(r"(?P<source>[A-Za-z]{2,3}(?:_[A-Za-z]+)?)-(?P<target>[A-Za-z]{2,3}(?:_[A-Za-z]+)?)")


def read_settings(
    file: Path | None,
    options: Mapping[str, Any],
    assignments: Iterable[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> ServerConfig:
    """Return the settings: those of a file, overridden by the environment, by options and by `--set` assignments.

    `models` and `glossaries` in options are texts such as `en-de=RUN` and `en-de=FILE`. Raises ConfigError, which names
    the source of a wrong value.
    """
    tree = _read_yaml(_FILE.read_text(file), str(file)) if file is not None else {}
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{file}: is not a mapping of settings. Write lines such as: port: 8000")
    for layer, where in ((tree, str(file)), (_from_environment(environment), "")):
        parse(ServerConfig, _complete(layer), where=where)  # an error names the layer
    merged = merge(merge(_complete(tree), _complete(_from_environment(environment))), _complete(options))
    return parse(ServerConfig, _complete(override(merged, assignments)))


def find_demo_models(folder: Path = Path("runs")) -> tuple[ModelConfig, ...]:
    """Return the finished runs of `dragoman demo` in a folder. Raises ConfigError if there are none."""
    found = [(path, _DEMO.fullmatch(path.name)) for path in sorted(folder.glob("demo-*"))]
    models = tuple(
        ModelConfig(path=str(path), name=path.name, source_language=match["source"], target_language=match["target"])
        for path, match in found
        if match is not None and RunFolder(path).weights.is_file()
    )
    if not models:
        raise ConfigError(
            f"No model is named, and {folder.absolute()} has no demo. Name run folders, as in: dragoman serve "
            "en-de=runs/en-de\nTo get a model: `dragoman demo` trains a small one in minutes, `dragoman train` one on "
            "your texts, and `dragoman import` converts one."
        )
    return models


def _complete(tree: Mapping[str, Any]) -> Tree:
    """Return settings in which models and glossaries given as texts are groups."""
    completed = dict(tree)
    for name, read in (("models", model_settings), ("glossaries", glossary_settings)):
        given = [tree[name]] if isinstance(tree.get(name), str) else tree.get(name)
        if isinstance(given, Sequence):
            completed[name] = [read(one) if isinstance(one, str) else one for one in given]
    return completed


def model_settings(text: str) -> Tree:
    """Return the settings of a model given as `RUN` or `NAME=RUN`, where a name such as `en-de` tells the languages."""
    match = _NAMED.fullmatch(text)
    if match is None or Path(text).exists():
        return {"path": text}
    pair = _PAIR.fullmatch(match["name"])
    languages = {} if pair is None else {"source_language": pair["source"], "target_language": pair["target"]}
    return {"name": match["name"], "path": match["path"], **languages}


def glossary_settings(text: str) -> Tree:
    """Return the settings of a glossary given as `PAIR=FILE`. Raises ConfigError for another text."""
    match = _NAMED.fullmatch(text)
    pair = None if match is None else _PAIR.fullmatch(match["name"])
    if match is None or pair is None:
        raise ConfigError(f"{text!r:.80} does not name a language pair. Give a glossary as en-de=FILE.")
    return {"path": match["path"], "source_language": pair["source"], "target_language": pair["target"]}


def _from_environment(environment: Mapping[str, str]) -> Tree:
    """Return the settings in environment variables, whose values are YAML."""
    tree: Tree = {}
    for name, value in sorted(environment.items()):
        if name.startswith(ENVIRONMENT):
            key = name.removeprefix(ENVIRONMENT).lower().replace("__", ".")
            tree = merge(tree, nest(key, _read_yaml(value, name)))
    return tree


def _read_yaml(text: str, where: str) -> Any:
    try:
        return parse_yaml(text)
    except YamlError as error:
        raise ConfigError(f"{where}: is not valid YAML ({error}). Correct it.") from error
