"""Vocabularies and tokenizers of exported models: lists of tokens, SentencePiece models and `tokenizer.json`."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from dragoman.atomic_files import write_atomically
from dragoman.data.tokenizers import ImportedTokenizer, LanguageTokenizer, SubwordTokenizer, Tokenizer
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS, BpeModel, UnigramModel, WordModel
from dragoman.errors import ConfigError
from dragoman.interop.sentencepiece_format import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    Piece,
    can_normalize,
    sentencepiece_content,
)

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
            write_atomically(folder / "tokenizer.json", tree["tokenizer"])
    elif isinstance(language, SubwordTokenizer) and (content := sentencepiece_model(language, symbols)) is not None:
        write_atomically(folder / spm, content)


def sentencepiece_model(tokenizer: SubwordTokenizer, symbols: Mapping[str, str]) -> bytes | None:
    """Return the SentencePiece model that splits texts in Unicode's composed form as a tokenizer does.

    None where SentencePiece has no such model: for words, lowercased texts and kept white space. In byte pair encoding,
    the score of a token is its place in the order of merges.
    """
    model, byte_ids = tokenizer.model, frozenset(tokenizer.byte_ids)
    if isinstance(model, WordModel) or not can_normalize(tokenizer.normalizer):
        return None
    types = {"unk": UNKNOWN}
    pieces = [Piece(symbols[role], type=types.get(role, CONTROL)) for role in _ROLES]
    scores = _scores(model)
    for index, token in enumerate(model.vocab[len(_ROLES) :], len(_ROLES)):
        pieces.append(Piece(token, scores[token], BYTE if index in byte_ids else NORMAL))
    kind: Literal["unigram", "bpe", "characters"] = "unigram"
    if isinstance(model, BpeModel):
        kind = "bpe" if model.merges else "characters"
    return sentencepiece_content(pieces, kind=kind, normalizer=tokenizer.normalizer)


def _scores(model: BpeModel | UnigramModel) -> dict[str, float]:
    if isinstance(model, UnigramModel):
        return dict(zip(model.vocab, model.scores, strict=True))
    singles = [token for token in model.vocab if len(token) == 1]
    scores = dict.fromkeys(model.vocab, 0.0)
    scores |= {token: -float(len(model.merges) + place) for place, token in enumerate(singles)}
    return scores | {first + second: -float(place) for place, (first, second) in reversed([*enumerate(model.merges)])}
