"""SentencePiece models of tokenizers, as Marian and Firefox read them.

A model is a protocol buffer: field 1 holds the pieces (text, score, type), field 2 the settings of the training and
field 3 those of the normalization (`sentencepiece/src/sentencepiece_model.proto`).
"""

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

from dragoman.data.tokenizers import ImportedTokenizer, LanguageTokenizer, SubwordTokenizer, TextNormalizer
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS, UnigramModel
from dragoman.errors import ConfigError
from dragoman.interop.marian.vocabulary_files import EOS, UNK
from dragoman.interop.vocabulary_order import VocabularyOrder

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_UNIGRAM: Final = 1
_EOS_ID, _UNK_ID = 0, 1


@final
@dataclass(frozen=True)
class VocabularyFile:
    """SentencePiece model, and the order of its ids."""

    content: bytes
    order: VocabularyOrder


def export_vocabulary(tokenizer: LanguageTokenizer, order: VocabularyOrder | None) -> VocabularyFile:
    """Return the vocabulary of a tokenizer; `order` is that of an imported one.

    Raises ConfigError, with the remedy, if SentencePiece cannot split texts in the same way.
    """
    if isinstance(tokenizer, ImportedTokenizer):
        tree = tokenizer.library.to_json()
        if tree["kind"] != "sentencepiece" or tree["vocabulary"] is not None or order is None:
            raise ConfigError(
                "tokenizer.kind = imported: it is no SentencePiece model with ids of its own, which Marian needs. "
                "Export the model to another format."
            )
        return VocabularyFile(base64.b64decode(tree["model"]), order)
    assert isinstance(tokenizer, SubwordTokenizer), "there are two kinds of tokenizers"
    model, normalizer = tokenizer.model, tokenizer.normalizer
    if not isinstance(model, UnigramModel):
        raise ConfigError(
            "tokenizer.kind: Firefox reads SentencePiece models of kind unigram. Train with "
            "--set tokenizer.kind=unigram."
        )
    if normalizer.casing != "preserve" or normalizer.whitespace != "collapse":
        raise ConfigError(
            f"tokenizer.casing = {normalizer.casing}, tokenizer.whitespace = {normalizer.whitespace}: SentencePiece "
            "has preserve and collapse. Train with them."
        )
    pieces = [(EOS, 0.0, _CONTROL), (UNK, 0.0, _UNKNOWN)]
    bytes_ = {model.vocab[index] for index in tokenizer.byte_ids}
    for piece, score in zip(model.vocab[len(SPECIAL_TOKENS) :], model.scores[len(SPECIAL_TOKENS) :], strict=True):
        pieces.append((piece, score, _BYTE if piece in bytes_ else _NORMAL))
    content = b"".join(_message(1, _piece(*piece)) for piece in pieces)
    content += _message(2, _training(len(pieces), byte_fallback=bool(bytes_))) + _message(3, _normalization(normalizer))
    return VocabularyFile(content, VocabularyOrder(len(pieces), unk=_UNK_ID, eos=_EOS_ID))


def _piece(piece: str, score: float, kind: int) -> bytes:
    return _message(1, piece.encode()) + _tag(2, 5) + struct.pack("<f", score) + _number(3, kind)


def _training(size: int, *, byte_fallback: bool) -> bytes:
    ids = {40: _UNK_ID, 41: -1, 42: _EOS_ID, 43: -1}
    head = _number(3, _UNIGRAM) + _number(4, size) + _number(35, int(byte_fallback))
    names = _message(45, UNK.encode()) + _message(47, EOS.encode())
    return head + b"".join(_number(field, value) for field, value in ids.items()) + names


def _normalization(normalizer: TextNormalizer) -> bytes:
    """Return the settings of a normalization; NFC is left to the texts, which rarely have another form."""
    rule = "nfkc" if normalizer.normalization == "nfkc" else "identity"
    return (
        _message(1, rule.encode())
        + (_message(2, _character_map(rule)) if rule == "nfkc" else b"")
        + b"".join(_number(field, int(on)) for field, on in ((3, normalizer.add_prefix_space), (4, True), (5, True)))
    )


def _character_map(rule: str) -> bytes:
    """Return SentencePiece's table of a normalization: field 2 of field 3 of the model of a normalizer."""
    import sentencepiece  # takes 0.2 s

    content = sentencepiece.SentencePieceNormalizer(rule_name=rule).serialized_model_proto()
    return next(_fields(next(_fields(content, 3)), 2))


def _fields(content: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the contents of the fields of a number in a message of this program's library."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        size, start = {0: (0, _varint(content, place)[1]), 1: (8, place), 5: (4, place)}.get(key & 7, (None, None))
        if key & 7 == 2:
            size, start = _varint(content, place)
        assert size is not None and start is not None  # noqa: PT018  # written by the library
        if key >> 3 == wanted:
            yield content[start : start + size]
        place = start + size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place


def _message(field: int, content: bytes) -> bytes:
    return _tag(field, 2) + _encode(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _tag(field, 0) + _encode(value % 2**64)


def _tag(field: int, wire: int) -> bytes:
    return _encode(field << 3 | wire)


def _encode(value: int) -> bytes:
    """Return a number in groups of 7 bits, the lowest first."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)
