"""Vocabularies and tokenizers of exported models: lists of tokens, SentencePiece models and `tokenizer.json`.

A SentencePiece model is a protocol buffer: field 1 holds the pieces (text, score, type), field 2 the settings of the
training, field 3 those of the normalization. Format: `sentencepiece_model.proto` of SentencePiece.
"""

import base64
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dragoman.atomic_files import write_atomically
from dragoman.data.tokenizers import ImportedTokenizer, LanguageTokenizer, SubwordTokenizer, Tokenizer
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS, BpeModel, UnigramModel, WordModel
from dragoman.errors import ConfigError

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
"""Types of pieces."""
_UNIGRAM, _BPE, _CHARACTERS = 1, 2, 4
"""Types of models."""
_ROLES: Final = ("pad", "unk", "bos", "eos")


def export_tokens(tokenizer: Tokenizer, symbols: Mapping[str, str], *, is_seq2seq: bool) -> dict[str, list[str]]:
    """Return the tokens by id of the vocabulary of each side, or of the `shared` one.

    Raises ConfigError if a token has the name of a special symbol.
    """
    sides = {"shared": tokenizer.target} if tokenizer.shared or not is_seq2seq else {}
    sides = sides or {"source": tokenizer.source, "target": tokenizer.target}
    return {name: _tokens(side, symbols) for name, side in sides.items()}


def _tokens(language: LanguageTokenizer, symbols: Mapping[str, str]) -> list[str]:
    names = [symbols[role] for role in _ROLES]
    others = list(language.tokens[len(SPECIAL_TOKENS) :])
    if taken := set(names).intersection(others):
        raise ConfigError(
            f"The vocabulary has an ordinary token {min(taken)}, which is a special symbol in the format. Export it "
            "without --format."
        )
    return names + others


def write_tokenizers(tokenizer: Tokenizer, symbols: Mapping[str, str], folder: Path) -> None:
    """Write the tokenizer of each side next to a model; one of words has no file, because white space separates it."""
    if tokenizer.shared:
        _write(tokenizer.target, symbols, folder, spm="sentencepiece.model")
        return
    for side, language in (("source", tokenizer.source), ("target", tokenizer.target)):
        _write(language, symbols, folder, spm=f"{side}.spm")


def _write(language: LanguageTokenizer, symbols: Mapping[str, str], folder: Path, *, spm: str) -> None:
    if isinstance(language, ImportedTokenizer):
        tree = language.library.to_json()
        if tree["kind"] == "sentencepiece":
            write_atomically(folder / spm, base64.b64decode(tree["model"]))
        elif spm == "sentencepiece.model":
            write_atomically(folder / "tokenizer.json", json.dumps(tree["tokenizer"], ensure_ascii=False) + "\n")
    elif isinstance(language, SubwordTokenizer) and (content := sentencepiece_model(language, symbols)) is not None:
        write_atomically(folder / spm, content)


def sentencepiece_model(tokenizer: SubwordTokenizer, symbols: Mapping[str, str]) -> bytes | None:
    """Return the SentencePiece model that splits texts in Unicode's composed form as a tokenizer does.

    None where SentencePiece has no such model: for words, lowercased texts and kept white space. In byte pair encoding,
    the score of a token is its place in the order of merges.
    """
    model, normalizer = tokenizer.model, tokenizer.normalizer
    if isinstance(model, WordModel) or normalizer.casing != "preserve" or normalizer.whitespace != "collapse":
        return None
    scores = dict.fromkeys(model.vocab, 0.0)
    kind = _UNIGRAM
    if isinstance(model, UnigramModel):
        scores = dict(zip(model.vocab, model.scores, strict=True))
    elif isinstance(model, BpeModel):
        kind = _BPE if model.merges else _CHARACTERS
        scores |= {first + second: -float(place) for place, (first, second) in reversed([*enumerate(model.merges)])}
        singles = [token for token in model.vocab if len(token) == 1]
        scores |= {token: -float(len(model.merges) + place) for place, token in enumerate(singles)}
    types = [_CONTROL, _UNKNOWN, _CONTROL, _CONTROL]
    content = b"".join(
        _message(1, _piece(symbols[role], 0.0, type_)) for role, type_ in zip(_ROLES, types, strict=True)
    )
    byte_ids = frozenset(tokenizer.byte_ids)
    for index, token in enumerate(model.vocab[len(_ROLES) :], len(_ROLES)):
        content += _message(1, _piece(token, scores[token], _BYTE if index in byte_ids else _NORMAL))
    training = {3: kind, 4: len(model.vocab), 35: int(bool(byte_ids)), 40: 1, 41: 2, 42: 3, 43: 0}
    settings = {3: int(normalizer.add_prefix_space), 4: 1, 5: 1}
    content += _message(2, b"".join(_number(*pair) for pair in training.items()))
    return content + _message(3, _message(1, b"identity") + b"".join(_number(*pair) for pair in settings.items()))


def _piece(piece: str, score: float, kind: int) -> bytes:
    return _message(1, piece.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", score) + _number(3, kind)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Return a number in groups of 7 bits, the lowest first; all but the last have their highest bit set."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)
