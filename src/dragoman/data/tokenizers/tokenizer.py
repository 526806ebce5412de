"""A tokenizer of two languages and its file."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, assert_never, final

from pydantic import TypeAdapter

from dragoman.atomic import write_atomically
from dragoman.data.tokenizers.config import TokenizerSettings
from dragoman.data.tokenizers.language_tokenizer import Side
from dragoman.data.tokenizers.normalization import Preparation
from dragoman.data.tokenizers.trainers import Texts, learn
from dragoman.data.tokenizers.vocabulary import SPECIALS, Merges, Scores, Segmentation, WholeWords
from dragoman.errors import ConfigError, DataError

FORMAT = "dragoman.tokenizer"
VERSION = 2
"""Of files that keep white space; those that collapse it are as they always were, of version 1."""

Pairs = Callable[[], Iterable[tuple[str, str]]]
Tree = dict[str, Any]


@final
class Tokenizer:
    """Text to ids and back for the source and the target, which may be one and the same `Side`."""

    def __init__(self, source: Side, target: Side, settings: TokenizerSettings) -> None:
        self.source = source
        self.target = target
        self.settings = settings

    @classmethod
    def train(cls, pairs: Pairs, settings: TokenizerSettings) -> Self:
        """Learn the vocabularies from (source, target) texts; `pairs` is called for every pass over them.

        The same texts give the same tokenizer. Raises DataError where there is no text.
        """
        preparation = settings.preparation()
        if settings.shared:
            both = Side(learn(lambda: (text for pair in pairs() for text in pair), settings), preparation)
            return cls(both, both, settings)
        source = Side(learn(lambda: (pair[0] for pair in pairs()), settings), preparation)
        target = Side(learn(lambda: (pair[1] for pair in pairs()), settings), preparation)
        return cls(source, target, settings)

    @classmethod
    def train_on_texts(cls, texts: Texts, settings: TokenizerSettings) -> Self:
        """Learn one vocabulary from single texts, which is that of both sides; `texts` is called for every pass.

        Raises DataError where there is no text, ConfigError where a vocabulary for each side is asked for.
        """
        if not settings.shared:
            raise ConfigError("tokenizer.shared = false: single texts have one side, with one vocabulary; leave it out")
        both = Side(learn(texts, settings), settings.preparation())
        return cls(both, both, settings)

    @property
    def shared(self) -> bool:
        """Whether both languages have one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Equal for tokenizers that give the same ids for every text."""
        return _digest(_sides(self.source, self.target))

    def save(self, path: Path) -> None:
        """Write the file whole or not at all. Raises RunError where the disk refuses."""
        sides = _sides(self.source, self.target)
        tree = {
            "format": FORMAT,
            "version": 1 if self.settings.whitespace == "collapse" else VERSION,
            "fingerprint": _digest(sides),
            "settings": _without_default(self.settings.model_dump(mode="json")),
            **sides,
        }
        write_atomically(path, json.dumps(tree, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file written by `save`. Raises DataError where it is missing, damaged or of a newer version."""
        tree = _read(path)
        try:
            settings: TokenizerSettings = TypeAdapter(TokenizerSettings).validate_python(tree["settings"])
            source = _side(tree["source"])
            target = source if tree["target"] is None else _side(tree["target"])
            tokenizer = cls(source, target, settings)
        except Exception as error:
            # The library raises plain `Exception` for merges that do not fit its vocabulary.
            raise DataError(f"{path}: damaged tokenizer ({_first_line(error)}); {_REMEDY}") from error
        if tree.get("fingerprint") != tokenizer.fingerprint:
            raise DataError(f"{path}: damaged tokenizer (its contents do not match its fingerprint); {_REMEDY}")
        return tokenizer


_REMEDY = "copy the file again from the run it belongs to, or train anew"


def _read(path: Path) -> Tree:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: damaged tokenizer ({_first_line(error)}); {_REMEDY}") from error
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise DataError(f"{path}: not a tokenizer of dragoman; give the tokenizer.json of a run")
    if tree.get("version") not in range(1, VERSION + 1):
        raise DataError(
            f"{path}: tokenizer of version {tree.get('version')}, but this program reads 1 to {VERSION}; "
            "update dragoman"
        )
    return tree


def _sides(source: Side, target: Side) -> Tree:
    return {"source": _tree(source), "target": None if source is target else _tree(target)}


def _tree(side: Side) -> Tree:
    preparation = _without_default(asdict(side.preparation))
    return {"preparation": preparation, "segmentation": _segmentation_tree(side.segmentation)}


def _without_default(tree: Tree) -> Tree:
    """Files say nothing of white space that is collapsed, as they did before it could be kept."""
    return {key: value for key, value in tree.items() if (key, value) != ("whitespace", "collapse")}


def _segmentation_tree(segmentation: Segmentation) -> Tree:
    match segmentation:
        case Merges(pieces=pieces, merges=merges):
            return {"kind": "merges", "pieces": list(pieces), "merges": [list(pair) for pair in merges]}
        case Scores(pieces=pieces, scores=scores):
            return {"kind": "scores", "pieces": list(pieces), "scores": list(scores)}
        case WholeWords(pieces=pieces):
            return {"kind": "words", "pieces": list(pieces)}
        case _:
            assert_never(segmentation)


def _side(tree: Tree) -> Side:
    preparation = TypeAdapter(Preparation).validate_python(tree["preparation"])
    return Side(_segmentation(tree["segmentation"]), preparation)


def _segmentation(tree: Tree) -> Segmentation:
    pieces = tuple(tree["pieces"])
    if pieces[: len(SPECIALS)] != SPECIALS or len(set(pieces)) != len(pieces):
        raise ValueError("the vocabulary lacks its special symbols or holds an entry twice")
    match tree["kind"]:
        case "merges":
            return Merges(pieces, tuple((left, right) for left, right in tree["merges"]))
        case "scores":
            return Scores(pieces, tuple(float(score) for score in tree["scores"]))
        case "words":
            return WholeWords(pieces)
        case kind:
            raise ValueError(f"unknown kind of segmentation {kind!r}")


def _digest(tree: Tree) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
