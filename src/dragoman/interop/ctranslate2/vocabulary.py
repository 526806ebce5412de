"""Vocabularies and special symbols of a model of CTranslate2, and the tokenizers of their texts.

A folder holds `shared_vocabulary`, or `source_vocabulary` and `target_vocabulary`, or `vocabulary` of a language model,
as `.json` (a list of tokens) or `.txt` (one per line). An unknown token that is not in a vocabulary is its last entry.
CTranslate2 leaves tokenization to its users. A tokenizer that lies in the folder is used. Without one, a vocabulary of
single characters is that of characters, and for others tokens are what white space separates.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from dragoman.data.tokenizers.imported_tokenizer import (
    ImportedTokenizer,
    tokenizer_from_json,
    tokenizer_from_sentencepiece,
)
from dragoman.errors import DataError, shorten
from dragoman.interop.ctranslate2.attributes import read_text
from dragoman.interop.ctranslate2.model_file import ModelFile
from dragoman.interop.text_template import first_symbol
from dragoman.interop.vocabulary_order import ADDED, MAX_VOCABULARY, VocabularyOrder
from dragoman.untrusted_files import MEBIBYTE, FileKind, parse_json

PAD_TOKENS: Final = ("<blank>", "<pad>", "[PAD]", "<PAD>")
"""Names of the padding symbol, which CTranslate2 does not use."""
SENTENCEPIECE_FILES: Final = (
    *("sentencepiece.model", "spm.model", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model"),
    *("source.spm", "target.spm"),
)
WHITE_SPACE: Final = "white space"
"""Tokenization of a folder without a tokenizer."""
_FILE = FileKind(64 * MEBIBYTE, "convert the model again with CTranslate2")


@final
@dataclass(frozen=True)
class Symbols:
    """Special symbols, and where they are added."""

    unk: str = "<unk>"
    bos: str = "<s>"
    eos: str = "</s>"
    start: str | None = "<s>"
    """Symbol before the first token of an output; None if the user gives it."""
    add_source_bos: bool = False
    add_source_eos: bool = False


@final
@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, and their order here."""

    tokens: tuple[str, ...]
    order: VocabularyOrder


def read_symbols(model: ModelFile, config: Mapping[str, Any], *, where: str) -> Symbols:
    """Return the special symbols: from `config.json` since version 6 of the model file, and from its attributes before.

    Raises DataError if a symbol is no text.
    """
    names = ("unk_token", "bos_token", "eos_token")
    unk: Any
    bos: Any
    eos: Any
    if model.version >= 6:
        unk, bos, eos = (config.get(name) for name in names)
        start = config.get("decoder_start_token", bos)
        flags = [config.get(name, False) for name in ("add_source_bos", "add_source_eos")]
    else:
        try:
            unk, bos, eos = (
                read_text(model.variables, name) or default
                for name, default in zip(names, ("<unk>", "<s>", "</s>"), strict=True)
            )
        except ValueError as error:
            raise DataError(f"{where}: damaged ({error}); convert the model again with CTranslate2") from error
        has_start = _flag(model, "with_target_bos", default=True)
        start = None if _flag(model, "user_decoder_start_tokens") else bos if has_start else eos
        flags = [_flag(model, name) for name in ("with_source_bos", "with_source_eos")]
    texts = [unk, bos, eos, *([] if start is None else [start])]
    if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, bool) for one in flags):
        raise DataError(f"{where}: its special symbols are no texts; convert the model again with CTranslate2")
    return Symbols(unk, bos, eos, start, *flags)


SYMBOL_ATTRIBUTES: Final = (
    *("unk_token", "bos_token", "eos_token", "with_source_bos", "with_source_eos"),
    *("with_target_bos", "user_decoder_start_tokens"),
)
"""Attributes before version 6 that `read_symbols` reads."""


def _flag(model: ModelFile, name: str, *, default: bool = False) -> bool:
    tensor = model.variables.get(name)
    return default if tensor is None or tensor.dim() else bool(tensor)


def find_vocabulary(folder: Path, name: str) -> Path | None:
    """Return the file of a vocabulary, which is JSON or text; None if there is none."""
    found = (folder / f"{name}.{ending}" for ending in ("json", "txt"))
    return next((path for path in found if path.is_file() or path.is_symlink()), None)


def read_tokens(path: Path, symbols: Symbols, *, expected: int, where: str) -> tuple[str, ...]:
    """Return the tokens of a vocabulary by id.

    Raises DataError if the file is invalid, or has another number of tokens than the model has embeddings.
    """
    content = _FILE.read_bytes(path)
    try:
        tokens = parse_json(content) if path.suffix == ".json" else _split_lines(content)
    except ValueError as error:
        raise _FILE.damaged(path, str(error)) from error
    if not isinstance(tokens, list) or not all(isinstance(one, str) for one in tokens) or len(tokens) > MAX_VOCABULARY:
        raise _FILE.damaged(path, f"it is no list of at most {MAX_VOCABULARY:,} tokens")
    if symbols.unk not in tokens and len(tokens) < expected:
        tokens.append(symbols.unk)  # models of byte-level vocabularies have no unknown token
    if len(tokens) != expected:
        raise DataError(
            f"{path}: has {len(tokens):,} tokens, and the model in {where} has embeddings of {expected:,}. Do the "
            "files belong together?"
        )
    return tuple(tokens)


def _split_lines(content: bytes) -> list[str]:
    lines = content.decode().split("\n")
    if lines[-1] == "":
        lines.pop()
    if all(line.endswith("\r") for line in lines):
        return [line[:-1] for line in lines]
    return lines


def vocabulary_order(tokens: Sequence[str], symbols: Symbols, *, start: str | None) -> VocabularyOrder:
    """Return the order of a vocabulary, whose `start` symbol takes the place of our begin symbol.

    Raises DataError if the end symbol is not in the vocabulary.
    """
    ids = {token: index for index, token in reversed(list(enumerate(tokens)))}
    if symbols.eos not in ids:
        raise DataError(f"The vocabulary lacks the end symbol {shorten(symbols.eos)}. Convert the model again.")
    pad = next((ids[name] for name in PAD_TOKENS if name in ids), None)
    bos = None if start is None else ids.get(start)
    return VocabularyOrder(len(tokens), pad=pad, unk=ids.get(symbols.unk), bos=bos, eos=ids[symbols.eos])


def build_tokenizer(
    vocabulary: Vocabulary, folder: Path, *, side: str, symbols: Symbols, hidden: Collection[int] = ()
) -> tuple[ImportedTokenizer, str]:
    """Return the tokenizer of a vocabulary, and a note that says where it comes from.

    `hidden` are the foreign ids of symbols that write nothing into a text, besides those that the files name.
    """
    order = vocabulary.order.foreign_ids.tolist()
    pieces = {token: index for index, token in reversed(list(enumerate(vocabulary.tokens)))}
    for name in SENTENCEPIECE_FILES:
        if name in ("source.spm", "target.spm") and name != f"{side}.spm":
            continue
        if (path := folder / name).is_file():
            content = _FILE.read_bytes(path)
            tokenizer = tokenizer_from_sentencepiece(content, order=order, vocabulary=pieces, hidden=hidden)
            return tokenizer, f"SentencePiece ({name})"
    if (path := folder / "tokenizer.json").is_file():
        return _from_tokenizers_file(path, vocabulary), "tokenizer.json"
    ordinary = set(vocabulary.tokens) - {symbols.unk, symbols.bos, symbols.eos, *PAD_TOKENS}
    if ordinary and all(len(token) == 1 for token in ordinary):
        return tokenizer_from_json(_plain_tokenizer(pieces, symbols, characters=True), order=order), "characters"
    return tokenizer_from_json(_plain_tokenizer(pieces, symbols, characters=False), order=order), WHITE_SPACE


def begins_with_bos(folder: Path, symbols: Symbols) -> bool | None:
    """Return whether the tokenizer of a folder puts the begin symbol before a text; None if its files do not say so."""
    if any((folder / name).is_file() for name in SENTENCEPIECE_FILES) or not (folder / "tokenizer.json").is_file():
        return None
    return first_symbol(_FILE.read_json_object(folder / "tokenizer.json")) == symbols.bos


def _from_tokenizers_file(path: Path, vocabulary: Vocabulary) -> ImportedTokenizer:
    content = _FILE.read_bytes(path)
    theirs = tokenizer_from_json(content, order=range(4)).library.tokens
    ids = {token: index for index, token in enumerate(theirs) if token}
    tokens: Iterable[str | None] = (
        None if index == ADDED else vocabulary.tokens[index] for index in vocabulary.order.foreign_ids.tolist()
    )
    return tokenizer_from_json(content, order=[ADDED if token is None else ids.get(token, ADDED) for token in tokens])


def _plain_tokenizer(pieces: Mapping[str, int], symbols: Symbols, *, characters: bool) -> str:
    """Return the JSON of a tokenizer without merges: one token per character, or per word between white space."""
    split = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": split if characters else {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": {"type": "Fuse"} if characters else None,
            "model": {"type": "WordLevel", "vocab": dict(pieces), "unk_token": symbols.unk},
        }
    )
