"""Tokenizers of toolkits whose vocabulary is a list of tokens: whole words, byte pair encoding, or SentencePiece.

fairseq and JoeyNMT train on text that was split before, and store the tokens in a list. The splits are those of
SentencePiece, of subword-nmt (Sennrich et al., 2016) and fastBPE, whose tokens end in `@@` inside of words, or white
space.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.data.tokenizers import ImportedTokenizer, tokenizer_from_sentencepiece
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.sentencepiece_library import MAX_MODEL
from dragoman.data.tokenizers.tokenizers_library import TokenizersLibrary
from dragoman.errors import DataError, shorten_text
from dragoman.untrusted_files import MEBIBYTE, FileKind

REMEDY: Final = "copy it from the original model"
TEXTS: Final = FileKind(32 * MEBIBYTE, REMEDY)
"""Vocabularies and codes: the largest published ones have 5 MB."""
_SENTENCEPIECE: Final = FileKind(MAX_MODEL, REMEDY)
INSIDE: Final = "@@"
"""End of a token of subword-nmt that is not the last one of its word."""
_WORD_END: Final = "</w>"
"""End of a symbol in the codes that is the last one of its word."""
MAX_MERGES: Final = 1_000_000


def split_by_white_space(tokens: Sequence[str], unknown: str, *, order: Iterable[int]) -> ImportedTokenizer:
    """Build the tokenizer of a vocabulary of words, separated by white space.

    Raises DataError if the vocabulary has tokens of byte pair encoding, which need their codes.
    """
    if any(token.endswith(INSIDE) for token in tokens):
        raise DataError(
            f"The vocabulary has parts of words, such as {shorten_text(_first_part(tokens))}, and there are no codes "
            "of byte pair encoding. Put the file of the codes, such as bpecodes, next to the model."
        )
    model = {"type": "WordLevel", "vocab": _ids(tokens), "unk_token": unknown}
    return ImportedTokenizer(TokenizersLibrary(_tree(model, None)), order)


def split_into_characters(
    tokens: Sequence[str], unknown: str, *, order: Iterable[int], lowercase: bool = False
) -> ImportedTokenizer:
    """Build the tokenizer of a vocabulary of characters, in which `▁` stands for a space."""
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    steps = [{"type": "Lowercase"}, spaces] if lowercase else [spaces]
    text = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    model = {"type": "WordLevel", "vocab": _ids(tokens), "unk_token": unknown}
    tree = _tree(model, {"type": "Sequence", "decoders": [text, {"type": "Fuse"}]}) | {
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False},
    }
    return ImportedTokenizer(TokenizersLibrary(tree), order)


def byte_pair_encoding(
    tokens: Sequence[str], unknown: str, codes: Path, *, order: Iterable[int], lowercase: bool = False
) -> ImportedTokenizer:
    """Build the tokenizer of subword-nmt or fastBPE from the file of its codes.

    Symbols of the codes that are not in the vocabulary get ids behind it, which are those of unknown tokens. Raises
    DataError if the codes are invalid.
    """
    merges = read_codes(codes)
    vocab: dict[str, int] = {}
    for index, token in enumerate(tokens):
        spelled = token.removesuffix(INSIDE) if token.endswith(INSIDE) else token + _WORD_END
        vocab.setdefault(token if token == unknown else spelled, index)
    for left, right in merges:
        for symbol in (left, right, left + right):
            vocab.setdefault(symbol, len(vocab) + len(tokens))
    model = {
        "type": "BPE",
        "unk_token": unknown,
        "end_of_word_suffix": _WORD_END,
        "fuse_unk": False,
        "vocab": vocab,
        "merges": [list(pair) for pair in merges],
    }
    tree = _tree(model, {"type": "BPEDecoder", "suffix": _WORD_END}, lowercase=lowercase)
    return ImportedTokenizer(TokenizersLibrary(tree), order)


def sentencepiece_pieces(tokens: Sequence[str], model: Path, *, order: Iterable[int]) -> ImportedTokenizer:
    """Build the tokenizer of a SentencePiece model whose pieces are numbered by a vocabulary."""
    return tokenizer_from_sentencepiece(_SENTENCEPIECE.read_bytes(model), order=order, vocabulary=_ids(tokens))


def read_codes(path: Path) -> list[tuple[str, str]]:
    """Read the merges of subword-nmt (version 0.2) or fastBPE, in order.

    A line holds two symbols and, in fastBPE, their count. Raises DataError for other lines and for version 0.1, whose
    symbols do not say where words end.
    """
    lines = TEXTS.read_text(path).split("\n")
    if len(lines) > MAX_MERGES:
        raise TEXTS.damaged(path, f"more than {MAX_MERGES:,} merges")
    merges = dict[tuple[str, str], None]()
    for number, line in enumerate(lines, start=1):
        parts = line.strip("\r ").split(" ")
        if number == 1 and line.startswith("#version"):
            if parts[-1] != "0.2":
                raise DataError(f"{path}: are codes of version {shorten_text(parts[-1])}, and dragoman reads 0.2.")
        elif len(parts) in (2, 3) and all(parts):
            merges[parts[0], parts[1]] = None
        elif parts != [""]:
            raise TEXTS.damaged(path, f"line {number} is not a pair of symbols")
    if any(_WORD_END in pair for pair in merges):
        raise DataError(f"{path}: are codes of version 0.1, and dragoman reads 0.2. Learn them again.")
    if not merges:
        raise TEXTS.damaged(path, "it has no merges")
    return list(merges)


def _tree(model: Mapping[str, Any], decoder: Mapping[str, Any] | None, *, lowercase: bool = False) -> dict[str, Any]:
    """Return the JSON tree of a tokenizer that separates words by white space."""
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"} if lowercase else None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": decoder,
        "model": model,
    }


def _ids(tokens: Sequence[str]) -> dict[str, int]:
    """Return the first id of each token."""
    found: dict[str, int] = {}
    for index, token in enumerate(tokens):
        found.setdefault(token, index)
    return found


def _first_part(tokens: Sequence[str]) -> str:
    return next(token for token in tokens if token.endswith(INSIDE))
