"""Configuration files of Hugging Face models: every key is read, known to have no effect, or refused."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, final

from dragoman.errors import DataError, shorten
from dragoman.interop.key_table import LEAVE_OUT, Computed, KeyTable, check_keys, without_aliases
from dragoman.untrusted_files import MEBIBYTE, FileKind, parse_json

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
JSON_FILES = FileKind(4 * MEBIBYTE, "download it again", error=DataError)
"""Small JSON files of a model; a configuration with 1,000 languages takes 100 KB."""

_UNLIMITED = re.compile(rb'("model_max_length"\s*:\s*)1[0-9]{30}(?![0-9])')
_T = TypeVar("_T")
_MISSING: Any = object()
MAX_SIZE = 2**24
"""Maximum of a size in a configuration; a vocabulary has fewer entries."""


@final
class ForeignConfig:
    """Settings of another library, whose keys a table lists."""

    def __init__(
        self,
        tree: Mapping[str, Any],
        *,
        path: Path,
        table: KeyTable,
        allow_unused: Collection[str] = (),
        group: str = "",
    ) -> None:
        """Raise ConfigError for a key that the table does not list, or with a value that it does not accept.

        Keys of `allow_unused` are left out. `group` is the key of the file whose value the settings are.
        """
        self.where = f"{path}: {group}." if group else f"{path}: "
        """Beginning of messages about a key."""
        check_keys(tree, table, where=self.where, allow_unused=allow_unused)
        kept = {key: value for key, value in tree.items() if key not in allow_unused}
        self.tree = without_aliases(kept, table)
        self.left_out = {key: tree[key] for key in allow_unused if key in tree}
        """Keys that the user leaves out, with their values."""
        self.borrowed: frozenset[str] = frozenset()
        """Keys that this file lacks, and another one has."""
        self.path = path
        self.read_keys: set[str] = set()
        """Keys that were read."""
        self._table = table

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

    def positive(self, key: str, default: float) -> float:
        """Return a number above 0. Raises DataError as `get` does, and for another number."""
        value = self.number(key, default)
        if not value > 0:
            raise self.error(key, value, "a number above 0")
        return value

    def rate(self, key: str, default: float) -> float:
        """Return a rate of dropout. Raises DataError as `get` does, and for a number that is none."""
        value = self.number(key, default)
        if not 0 <= value < 1:
            raise self.error(key, value, "a number from 0 to below 1")
        return value

    def flag(self, key: str, default: bool = _MISSING) -> bool:
        """Return a truth value. Raises DataError as `get` does."""
        return self.get(key, bool, default)

    def get(self, key: str, kind: type[_T] | tuple[type[_T], ...], default: _T = _MISSING) -> _T:
        """Return the value of a key that the table lists as computed, or the default if it is missing or null.

        Raises DataError if it is missing without a default, or of another type.
        """
        value = self.value(key)
        if value is None:
            if default is _MISSING:
                raise DataError(f"{self.where}{key} is missing; download the file again.")
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(key, value, " or ".join(one.__name__ for one in kinds))
        return value

    def value(self, key: str) -> Any:
        """Return the value of a key that the table lists as computed, of any type; None if it is missing."""
        assert isinstance(self._table.get(key), Computed), f"the table lists {key} as computed"
        self.read_keys.add(key)
        return self.tree.get(key)

    def error(self, key: str, value: Any, expected: str) -> DataError:
        """Return the error for the value of a key."""
        return DataError(
            f"{self.where}{key} = {shorten(value)} is not supported, but {expected} is. {LEAVE_OUT} {key}."
        )


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
