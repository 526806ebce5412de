"""Folder of a JoeyNMT training: `config.yaml`, vocabularies, and a checkpoint.

Format: https://joeynmt.readthedocs.io/en/latest/. Versions 1 and 2 differ in the keys of the section `data`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

from dragoman.errors import ConfigError, DataError, shorten
from dragoman.interop.vocabulary_order import MAX_VOCABULARY, VocabularyOrder
from dragoman.interop.word_vocabulary import TEXTS
from dragoman.yaml_files import RUN_CONFIG, read_yaml

CONFIG_FILE: Final = "config.yaml"
CHECKPOINTS: Final = ("best.ckpt", "latest.ckpt", "*.ckpt")
_SYMBOLS: Final = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
"""Special symbols in the order of their default ids, 0 to 3."""
_VOCABULARIES: Final = {"src": "src_vocab.txt", "trg": "trg_vocab.txt"}
Side = Literal["src", "trg"]


@final
@dataclass(frozen=True)
class ModelFolder:
    """Settings and files of a model."""

    path: Path
    config: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path) -> "ModelFolder":
        """Read the settings of a folder. Raises ConfigError or DataError if they are invalid."""
        tree = read_yaml(folder / CONFIG_FILE, RUN_CONFIG)
        for name in ("data", "model"):
            if not isinstance(tree.get(name), Mapping):
                raise DataError(f"{folder / CONFIG_FILE}: has no section {name}. Is it a configuration of JoeyNMT?")
        return cls(folder, tree)

    def get(self, *keys: str, default: Any = None) -> Any:
        """Return a nested setting; `default` if it is missing or null."""
        found: Any = self.config
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return default if found is None else found

    def side(self, side: Side, key: str, default: Any = None) -> Any:
        """Return a setting of a side of the data, which version 1 has for both sides."""
        value = self.get("data", side)
        return self.get("data", key, default=default) if not isinstance(value, Mapping) else value.get(key, default)

    def checkpoint(self) -> Path:
        """Return the checkpoint. Raises DataError if there is none, or several of other names."""
        for pattern in CHECKPOINTS:
            found = [path for path in self.path.glob(pattern) if path.exists()]
            if len(found) == 1:
                return found[0].resolve() if found[0].is_symlink() and _is_inside(found[0]) else found[0]
        raise DataError(f"{self.path}: has no single checkpoint ({', '.join(CHECKPOINTS)}). Leave the one to import.")

    def vocabulary(self, side: Side) -> tuple[str, ...]:
        """Return the tokens of a side by id: the special symbols, then those of its file."""
        path = self.vocabulary_path(side)
        lines = TEXTS.read_text(path).split("\n")
        if len(lines) > MAX_VOCABULARY:
            raise TEXTS.damaged(path, f"more than {MAX_VOCABULARY:,} tokens")
        tokens = [line for number, line in enumerate(lines, start=1) if line or number < len(lines)]
        return tuple(dict.fromkeys([*self._symbols(), *tokens]))

    def vocabulary_path(self, side: Side) -> Path:
        """Return the vocabulary of a side, which is in the folder of the model."""
        return self.path / _VOCABULARIES[side]

    def order(self, size: int) -> VocabularyOrder:
        """Return the order of a vocabulary."""
        ids: dict[str, Any] = {name: place for place, name in enumerate(self._ids())}
        return VocabularyOrder(size, **ids)

    @property
    def unknown(self) -> str:
        """Text of the unknown symbol."""
        return str(self._symbols()[list(self._ids()).index("unk")])

    def file(self, name: Any) -> Path:
        """Return a file that a setting names, which is in the folder of the model."""
        if not isinstance(name, str) or not Path(name).name:
            raise DataError(f"{self.path / CONFIG_FILE}: names the file {shorten(name)}. Give its name.")
        return self.path / Path(name).name

    def _ids(self) -> dict[str, int]:
        """Return the id of each special symbol, in their order. Raises ConfigError if they are not the first ones."""
        ids = {name: self.get("data", "special_symbols", f"{name}_id", default=n) for n, name in enumerate(_SYMBOLS)}
        if not all(type(index) is int for index in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
            raise ConfigError(
                f"{self.path / CONFIG_FILE}: data.special_symbols has the ids {shorten(ids)}, not 0 to 3."
            )
        return dict(sorted(ids.items(), key=lambda pair: pair[1]))

    def _symbols(self) -> list[str]:
        """Return the special symbols by id."""
        return [
            str(self.get("data", "special_symbols", f"{name}_token", default=_SYMBOLS[name])) for name in self._ids()
        ]


def _is_inside(link: Path) -> bool:
    """Return whether a link leads to a file of its own folder, as `best.ckpt` does."""
    return link.resolve().parent == link.parent.resolve()
