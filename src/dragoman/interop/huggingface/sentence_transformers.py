"""Settings of sentence-transformers next to a model: the pooling of its states, and the longest text.

`modules.json` lists the modules: a Transformer in the folder itself, a pooling with a `config.json` of its own, and
perhaps the normalization of vectors. Source: https://sbert.net/docs/package_reference/sentence_transformer/models.html
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dragoman.errors import ConfigError, shorten
from dragoman.interop.huggingface.foreign_config import JSON_FILES, read_optional_json
from dragoman.models.task_heads import SentenceEmbeddingConfig
from dragoman.untrusted_files import parse_json

MODULES_FILE: Final = "modules.json"
LENGTH_FILE: Final = "sentence_bert_config.json"
_POOLINGS: Final = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
_MODES: Final = {"mean": "mean", "cls": "first"}


def read_sentence_settings(
    folder: Path, *, max_length: int, lowercase: bool
) -> tuple[SentenceEmbeddingConfig, int, dict[str, Any]]:
    """Return the vector of a text, the longest text, and the files for the way back.

    Without `modules.json` they are the default, `max_length`, and none. `lowercase` says whether the tokenizer
    lowercases texts. Raises DataError if a file is damaged, and ConfigError for modules without counterpart.
    """
    path = folder / MODULES_FILE
    if not path.is_symlink() and not path.exists():
        return SentenceEmbeddingConfig(), max_length, {}
    modules = _read_modules(path)
    limits = read_optional_json(folder / LENGTH_FILE)
    if limits.get("do_lower_case") is True and not lowercase:
        raise ConfigError(f"{folder / LENGTH_FILE}: do_lower_case = true, which the tokenizer does not do itself.")
    pooling = "mean"
    files: dict[str, Any] = {MODULES_FILE: modules} | ({LENGTH_FILE: limits} if limits else {})
    kinds = [str(one.get("type", "")).rpartition(".")[2] for one in modules]
    for kind, one in zip(kinds, modules, strict=True):
        if kind == "Pooling":
            name = f"{_folder_name(path, one.get('path'))}/config.json"
            files[name] = read_optional_json(folder / name)
            pooling = _pooling(folder / name, files[name])
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ConfigError(
            f"{path}: has the modules {shorten(', '.join(kinds))}, and dragoman computes Transformer, Pooling and "
            "Normalize. Import another model."
        )
    longest = limits.get("max_seq_length")
    if type(longest) is int and longest >= 2:
        max_length = min(max_length, longest)
    settings = {"pooling": pooling, "normalize": kinds[-1] == "Normalize"}
    return SentenceEmbeddingConfig.model_validate(settings), max_length, files


def _read_modules(path: Path) -> list[Mapping[str, Any]]:
    try:
        modules = parse_json(JSON_FILES.read_bytes(path))
    except ValueError as error:
        raise JSON_FILES.damaged(path, f"not valid JSON: {error}") from error
    if not isinstance(modules, list) or not all(isinstance(one, Mapping) for one in modules):
        raise JSON_FILES.damaged(path, "it is no list of modules")
    return modules


def _folder_name(path: Path, name: Any) -> str:
    """Return the name of a folder next to the file. Raises DataError if it leads elsewhere."""
    if not isinstance(name, str) or not name.replace("_", "").isalnum():
        raise JSON_FILES.damaged(path, f"the path {shorten(name)} of a module is no name of a folder")
    return name


def _pooling(path: Path, settings: Mapping[str, Any]) -> str:
    """Return our name of a pooling. Raises ConfigError if there is none."""
    chosen = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value is True]
    mode = settings.get("pooling_mode")
    found = [_POOLINGS.get(key) for key in chosen] if mode is None else [_MODES.get(str(mode))]
    if len(found) != 1 or found[0] is None:
        raise ConfigError(
            f"{path}: has the pooling {shorten(mode or ', '.join(chosen))}, and dragoman computes the mean of all "
            "tokens or takes the first one. Import another model."
        )
    return found[0]
