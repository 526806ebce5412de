"""Configuration files of Hugging Face models: every key is read, known to be irrelevant, or refused."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, final

from dragoman.errors import DataError, nearest, shorten
from dragoman.untrusted_files import MEBIBYTE, FileKind, parse_json

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
JSON_FILES = FileKind(4 * MEBIBYTE, "download it again", error=DataError)
"""Small JSON files of a model; a configuration with 1,000 languages takes 100 KB."""

IRRELEVANT_KEYS = frozenset(
    [
        *("_name_or_path", "_commit_hash", "name_or_path", "architectures", "transformers_version", "model_type"),
        *("torch_dtype", "dtype", "use_bfloat16", "torchscript", "use_cache", "return_dict", "output_attentions"),
        *("output_hidden_states", "output_past", "attn_implementation", "_attn_implementation_autoset"),
        *("gradient_checkpointing", "chunk_size_feed_forward", "tf_legacy_loss", "use_return_dict"),
        *("id2label", "label2id", "num_labels", "_num_labels", "problem_type", "finetuning_task", "tokenizer_class"),
        *("initializer_range", "initializer_factor", "init_std", "encoder_layerdrop", "decoder_layerdrop"),
        *("classifier_dropout", "classif_dropout", "num_hidden_layers", "max_source_positions"),
        *("is_encoder_decoder", "n_positions", "save_step", "sep_token_id"),
    ]
)
"""Keys that change no output: names, training and loading only, or a repetition of other keys."""

_UNLIMITED = re.compile(rb'("model_max_length"\s*:\s*)1[0-9]{30}(?![0-9])')
_T = TypeVar("_T")
_MISSING: Any = object()
MAX_SIZE = 2**24
"""Maximum of a size in a configuration; a vocabulary has fewer entries."""


@final
class ForeignConfig:
    """Settings of another library, with a record of the keys that were read."""

    def __init__(self, tree: Mapping[str, Any], *, path: Path) -> None:
        self.tree = tree
        self.path = path
        self._read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return self.tree.get(key) is not None

    def size(self, key: str, default: int = _MISSING, *, at_least: int = 1) -> int:
        """Return an integer of at most `MAX_SIZE`. Raises DataError as `get` does, and for another number."""
        value = self.get(key, int, default)
        if not at_least <= value <= MAX_SIZE:
            raise self.error(key, value, f"a number from {at_least} to {MAX_SIZE:,}")
        return value

    def number(self, key: str, default: float = _MISSING) -> float:
        """Return a number. Raises DataError as `get` does."""
        return float(self.get(key, (int, float), default))

    def flag(self, key: str, default: bool = _MISSING) -> bool:
        """Return a truth value. Raises DataError as `get` does."""
        return self.get(key, bool, default)

    def get(self, key: str, kind: type[_T] | tuple[type[_T], ...], default: _T = _MISSING) -> _T:
        """Return the value of a key, or the default where it is missing or null.

        Raises DataError if it is missing without a default, or of another type.
        """
        self._read.add(key)
        value = self.tree.get(key)
        if value is None:
            if default is _MISSING:
                raise DataError(f"{self.path}: lacks {key}; download the file again.")
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(key, value, " or ".join(one.__name__ for one in kinds))
        return value

    def require(self, key: str, *allowed: Any) -> None:
        """Accept a key that is missing, null or of an allowed value. Raises DataError for other values."""
        self._read.add(key)
        value = self.tree.get(key)
        if value is not None and not any(type(value) is type(one) and value == one for one in allowed):
            raise self.error(key, value, " or ".join(map(repr, allowed)))

    def ignore(self, *keys: str) -> None:
        """Accept keys of any value."""
        self._read.update(keys)

    def finish(self, *, also: Collection[str] = ()) -> None:
        """Raise DataError if a key was not read and is neither irrelevant nor one of `also`."""
        for key, value in self.tree.items():
            if key in self._read or key in IRRELEVANT_KEYS or key in also or value is None:
                continue
            near = nearest(key, self._read)
            hint = f"; do you mean {near[0]}" if near else ""
            raise DataError(
                f"{self.path}: {shorten(key)} = {shorten(value)} is unknown, and may change outputs{hint}. Remove the "
                "key if it has no effect."
            )

    def error(self, key: str, value: Any, expected: str) -> DataError:
        """Return the error for the value of a key."""
        return DataError(
            f"{self.path}: {key} = {shorten(value)} is not supported, but {expected} is. Import another model."
        )


def read_config(folder: Path) -> ForeignConfig:
    """Read `config.json`. Raises DataError if it is missing or damaged."""
    path = folder / CONFIG_FILE
    return ForeignConfig(JSON_FILES.read_json_object(path), path=path)


def read_optional_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, empty without the file. Raises DataError if it is damaged.

    The number 10^30, which transformers writes for an unlimited length, becomes null.
    """
    if not path.is_symlink() and not path.exists():
        return {}
    content = _UNLIMITED.sub(rb"\1null", JSON_FILES.read_bytes(path))
    try:
        tree = parse_json(content)
    except ValueError as error:
        raise JSON_FILES.damaged(path, f"not valid JSON: {error}") from error
    if not isinstance(tree, dict):
        raise JSON_FILES.damaged(path, "it is not a mapping")
    return tree
