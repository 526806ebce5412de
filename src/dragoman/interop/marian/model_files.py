"""Files of a model of Marian or Bergamot: weights, vocabularies, shortlist and the configuration of the decoder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from dragoman.errors import DataError, quote
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.marian.binary_format import is_binary
from dragoman.untrusted_files import MEBIBYTE, FileKind
from dragoman.yaml_files import YamlError, parse_yaml

DECODER_FILE = FileKind(MEBIBYTE, "name the model file instead")
_MODEL_SUFFIXES = (".bin", ".npz")
_SETTINGS_SUFFIXES = (".yml", ".yaml")
FILES = FilePatterns(
    weights=(("model.npz",), ("*.best-*.npz",), ("*.npz",), ("model*.bin",)),
    required=(("*.spm", "*vocab*.yml", "*vocab*.yaml"),),
    optional=("*.yml", "*.yaml", "lex*.bin"),
)
"""Without a checkpoint of Hugging Face, whose name is `pytorch_model.bin`."""


@final
@dataclass(frozen=True)
class ModelFiles:
    """Files of a model; the two vocabularies are one file if they are shared."""

    model: Path
    source_vocabulary: Path
    target_vocabulary: Path
    shortlist: Path | None = None
    decoder: Mapping[str, Any] = field(default_factory=dict)
    """Configuration of the decoder; empty without a file."""

    def all(self) -> tuple[Path, ...]:
        """Return the different files."""
        every = (self.model, self.source_vocabulary, self.target_vocabulary, self.shortlist)
        return tuple(dict.fromkeys(path for path in every if path is not None))


def find_files(source: Path) -> ModelFiles:
    """Find the files of a folder, a decoder configuration or a model file. Raises DataError if some are missing."""
    folder = source if source.is_dir() else source.parent
    if source.is_file() and source.suffix in _SETTINGS_SUFFIXES:
        return _from_decoder(source, _read_decoder(source))
    if source.is_dir():
        known = {path: tree for path in _members(folder, _SETTINGS_SUFFIXES) if (tree := _decoder_or_none(path))}
        if len(known) == 1:
            return _from_decoder(*next(iter(known.items())))
    models = [source] if source.is_file() else [path for path in _members(folder, _MODEL_SUFFIXES) if _is_model(path)]
    if len(models) != 1:
        raise DataError(
            f"{source}: has {'several models' if models else 'no model of Marian'}. Name a model file or decoder.yml."
        )
    return _by_names(folder, models[0])


def recognizes(source: Path) -> bool:
    """Return whether a file or folder has names and first bytes of a model of Marian."""
    try:
        find_files(source)
    except (DataError, OSError, ValueError):
        return False
    return True


def _members(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes and path.is_file())


def _is_model(path: Path) -> bool:
    """Return whether a file begins as a model and not as a shortlist does."""
    with path.open("rb") as file:
        head = file.read(16)
    return is_binary(head) if path.suffix == ".bin" else head.startswith(b"PK")


def _decoder_or_none(path: Path) -> Mapping[str, Any] | None:
    try:
        return _read_decoder(path)
    except DataError:
        return None


def _read_decoder(path: Path) -> Mapping[str, Any]:
    """Return the configuration of a decoder. Raises DataError if it names no models and vocabularies."""
    try:
        tree = parse_yaml(DECODER_FILE.read_text(path))
    except YamlError as error:
        raise DECODER_FILE.damaged(path, str(error)) from error
    if not isinstance(tree, dict) or not all(_names(tree.get(key)) for key in ("models", "vocabs")):
        raise DECODER_FILE.error(f"{path}: names no models and vocabularies; {DECODER_FILE.remedy}")
    return tree


def _names(value: object) -> list[str]:
    """Return a list of file names, or none if it is no such list."""
    return value if isinstance(value, list) and value and all(isinstance(one, str) for one in value) else []


def _from_decoder(path: Path, tree: Mapping[str, Any]) -> ModelFiles:
    """Return the files that a configuration names, next to it; the folders of its own machine do not matter."""
    models, vocabularies = _names(tree["models"]), _names(tree["vocabs"])
    if len(models) > 1:
        raise DataError(f"{path}: names an ensemble of {len(models)} models. Import each model file by itself.")
    shortlist = tree.get("shortlist")
    name = shortlist[0] if isinstance(shortlist, list) and shortlist and isinstance(shortlist[0], str) else None

    def next_to_it(name: str) -> Path:
        found = path.parent / Path(name).name
        if not found.is_file():
            raise DataError(
                f"{found}: no such file, which {path.name} names. Put it into the folder {quote(path.parent)}."
            )
        return found

    return ModelFiles(
        next_to_it(models[0]),
        next_to_it(vocabularies[0]),
        next_to_it(vocabularies[-1]),
        None if name is None else next_to_it(name),
        tree,
    )


def _by_names(folder: Path, model: Path) -> ModelFiles:
    """Return the files of a folder without a configuration, by the names that Firefox and OPUS-MT give them."""
    pieces = [path for path in _members(folder, (".spm",)) if path.is_file()]
    vocabularies = pieces or [path for path in _members(folder, _SETTINGS_SUFFIXES) if "vocab" in path.name]
    sources = [path for path in vocabularies if path.name.startswith(("src", "source"))]
    targets = [path for path in vocabularies if path.name.startswith(("trg", "target"))]
    if len(vocabularies) == 1:
        sources = targets = vocabularies
    if len(sources) != 1 or len(targets) != 1:
        raise DataError(
            f"{folder}: has no vocabulary that belongs to {model.name}. Put vocab.spm, or srcvocab.spm and "
            "trgvocab.spm, next to it, or name a decoder.yml."
        )
    shortlists = [path for path in _members(folder, (".bin",)) if path.name.startswith("lex")]
    return ModelFiles(model, sources[0], targets[0], shortlists[0] if len(shortlists) == 1 else None)
