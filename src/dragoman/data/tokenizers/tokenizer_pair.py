"""Tokenizer of a language pair and its file."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, final

from pydantic import TypeAdapter

from dragoman.atomic_files import write_atomically
from dragoman.data.fingerprints import json_fingerprint
from dragoman.data.tokenizers.config import ImportedTokenizerConfig, TokenizerConfig, TrainedTokenizerConfig
from dragoman.data.tokenizers.imported_tokenizer import ImportedTokenizer, imported_from_json, imported_to_json
from dragoman.data.tokenizers.language_tokenizer import LanguageTokenizer
from dragoman.data.tokenizers.normalization import TextNormalizer
from dragoman.data.tokenizers.prefixes import NO_PREFIXES, Prefixes
from dragoman.data.tokenizers.sentencepiece_library import SentencePieceLibrary
from dragoman.data.tokenizers.subword_tokenizer import SubwordTokenizer
from dragoman.data.tokenizers.token_library import MAX_VOCAB, first_line
from dragoman.data.tokenizers.trainers import Texts, train_model
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS, BpeModel, SubwordModel, UnigramModel, WordModel
from dragoman.errors import ConfigError, DataError, shorten
from dragoman.untrusted_files import MEBIBYTE, FileKind

_FORMAT = "dragoman.tokenizer"
_FORMAT_VERSION = 3

Pairs = Callable[[], Iterable[tuple[str, str]]]
_Tree = dict[str, Any]


@final
class Tokenizer:
    """Text to ids and back for source and target, which may share one `LanguageTokenizer`."""

    def __init__(
        self,
        source: LanguageTokenizer,
        target: LanguageTokenizer,
        config: TokenizerConfig,
        prefixes: Prefixes = NO_PREFIXES,
    ) -> None:
        """Raises ValueError if an id of the prefixes is outside of its vocabulary."""
        self.source = source
        self.target = target
        self.config = config
        self.prefixes = prefixes
        """Symbols and words before sources and targets, such as the tags of languages."""
        prefixes.check_ids(source=len(source), target=len(target))

    @classmethod
    def train(cls, pairs: Pairs, config: TokenizerConfig) -> Self:
        """Train the vocabularies on (source, target) texts; `pairs` is called once per pass.

        The same texts give the same tokenizer. Raises DataError if there is no text, ConfigError if the configuration
        is that of an imported tokenizer.
        """
        trained = _require_trained(config)

        def train(texts: Texts, _: int) -> LanguageTokenizer:
            return SubwordTokenizer(train_model(texts, trained), trained.normalizer())

        return cls.from_sides(pairs, config, train, shared=config.shared)

    @classmethod
    def from_sides(
        cls, pairs: Pairs, config: TokenizerConfig, build: Callable[[Texts, int], LanguageTokenizer], *, shared: bool
    ) -> Self:
        """Build one language from all texts, or one per side; `build` gets the texts and the side, 0 or 1."""
        if shared:
            both = build(lambda: (text for pair in pairs() for text in pair), 0)
            return cls(both, both, config)
        source = build(lambda: (pair[0] for pair in pairs()), 0)
        target = build(lambda: (pair[1] for pair in pairs()), 1)
        return cls(source, target, config)

    @classmethod
    def train_on_texts(cls, texts: Texts, config: TokenizerConfig) -> Self:
        """Train one vocabulary on single texts, shared by both sides; `texts` is called once per pass.

        Raises DataError if there is no text, ConfigError if the configuration wants two vocabularies.
        """
        if not config.shared:
            raise ConfigError("tokenizer.shared = false: single texts have one side and one vocabulary; leave it out")
        trained = _require_trained(config)
        shared = SubwordTokenizer(train_model(texts, trained), trained.normalizer())
        return cls(shared, shared, config)

    @property
    def shared(self) -> bool:
        """Return whether source and target share one vocabulary; imported models may split their texts in two ways."""
        return self.source is self.target or (isinstance(self.config, ImportedTokenizerConfig) and self.config.shared)

    @property
    def fingerprint(self) -> str:
        """Hash that is equal for tokenizers that give the same ids for every text."""
        return json_fingerprint(self._contents())

    def with_split_unknown(self) -> "Tokenizer":
        """Return the tokenizer with a token for each source character outside of the vocabulary of SentencePiece."""
        source = self.source
        if not isinstance(source, ImportedTokenizer) or not isinstance(source.library, SentencePieceLibrary):
            return self
        source = ImportedTokenizer(source.library.with_split_unknown(), source.order)
        return Tokenizer(source, self.target, self.config, self.prefixes)

    def save(self, path: Path) -> None:
        """Write the file atomically. Raises RunError if it cannot be written."""
        contents = self._contents()
        tree = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "fingerprint": json_fingerprint(contents),
            "config": self.config.model_dump(mode="json"),
            **contents,
        }
        indent = None if isinstance(self.config, ImportedTokenizerConfig) else 1
        write_atomically(path, json.dumps(tree, ensure_ascii=False, indent=indent) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file written by `save`. Raises DataError if it is missing, damaged or of another version."""
        tree = _FILE.read_versioned_json(path, format_name=_FORMAT, version=_FORMAT_VERSION)
        try:
            config: TokenizerConfig = TypeAdapter(TokenizerConfig).validate_python(tree["config"])
            source = _language_from_json(tree["source"])
            target = source if tree["target"] is None else _language_from_json(tree["target"])
            prefixes = TypeAdapter(Prefixes).validate_python(tree.get("prefixes", {}))
            tokenizer = cls(source, target, config, prefixes)
            if tokenizer.shared and source.tokens != target.tokens:
                raise ValueError("the vocabularies of source and target differ")
        except Exception as error:
            # The library raises plain `Exception` for merges that do not fit its vocabulary.
            raise DataError(f"{path}: damaged tokenizer ({first_line(error)}); {_REMEDY}") from error
        if tree.get("fingerprint") != tokenizer.fingerprint:
            raise DataError(f"{path}: damaged tokenizer (its contents do not match its fingerprint); {_REMEDY}")
        return tokenizer

    def _contents(self) -> _Tree:
        """Return everything that the ids of a text depend on."""
        target = None if self.source is self.target else _language_to_json(self.target)
        sides = {"source": _language_to_json(self.source), "target": target}
        return sides if self.prefixes == NO_PREFIXES else {**sides, "prefixes": self.prefixes.to_json()}


_MODELS: dict[str, type[SubwordModel]] = {"bpe": BpeModel, "unigram": UnigramModel, "words": WordModel}
_REMEDY = "copy the file again from the run it belongs to, or train again"
MAX_FILE = 64 * MEBIBYTE
"""Bytes of a file; a vocabulary of 250,000 tokens with its merges takes 30 MiB."""
_FILE = FileKind(MAX_FILE, _REMEDY)


def _require_trained(config: TokenizerConfig) -> TrainedTokenizerConfig:
    if isinstance(config, ImportedTokenizerConfig):
        raise ConfigError(
            "tokenizer.kind = imported: an imported tokenizer comes with its model. Start from an imported run by "
            "init_from, or leave the kind out."
        )
    return config


def _language_to_json(language: LanguageTokenizer) -> _Tree:
    if isinstance(language, ImportedTokenizer):
        return {"imported": imported_to_json(language)}
    assert isinstance(language, SubwordTokenizer), "tokenizers are trained or imported"
    (kind,) = (kind for kind, model in _MODELS.items() if isinstance(language.model, model))
    return {"normalizer": asdict(language.normalizer), "model": {"kind": kind, **vars(language.model)}}


def _language_from_json(tree: _Tree) -> LanguageTokenizer:
    if "imported" in tree:
        return imported_from_json(tree["imported"])
    normalizer = TypeAdapter(TextNormalizer).validate_python(tree["normalizer"])
    kind, fields = tree["model"]["kind"], {name: value for name, value in tree["model"].items() if name != "kind"}
    if kind not in _MODELS:
        raise ValueError(f"unknown kind of model {shorten(kind)}")
    vocab = tuple(fields["vocab"])
    if len(vocab) > MAX_VOCAB:
        raise ValueError(f"the vocabulary has {len(vocab):,} tokens, more than {MAX_VOCAB:,}")
    if vocab[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS or len(set(vocab)) != len(vocab):
        raise ValueError("the vocabulary lacks its special tokens or holds a token twice")
    model: SubwordModel = TypeAdapter(_MODELS[kind]).validate_python(fields)
    return SubwordTokenizer(model, normalizer)
