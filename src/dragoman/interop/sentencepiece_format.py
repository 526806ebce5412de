"""Writer of SentencePiece models (Kudo and Richardson, 2018).

A model is a protocol buffer: field 1 holds the pieces (text, score, type), field 2 the settings of the training and
field 3 those of the normalization (`sentencepiece/src/sentencepiece_model.proto`).
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from dragoman.data.tokenizers import TextNormalizer

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
"""Types of pieces."""
_KINDS: Final = {"unigram": 1, "bpe": 2, "characters": 4}


@final
@dataclass(frozen=True)
class Piece:
    """Entry of a vocabulary."""

    text: str
    score: float = 0.0
    """Log-probability in a unigram model; of pieces that may be merged, the one with the greatest is."""
    type: int = NORMAL


def can_normalize(normalizer: TextNormalizer) -> bool:
    """Return whether SentencePiece splits texts in NFC as a normalizer does: it has no lowercase here."""
    return normalizer.casing == "preserve" and normalizer.whitespace == "collapse"


def sentencepiece_content(
    pieces: Sequence[Piece], *, kind: Literal["unigram", "bpe", "characters"], normalizer: TextNormalizer
) -> bytes:
    """Return the content of a model; the ids of the special symbols are those of the pieces with their usual names.

    NFC is left to the texts, which rarely have another form.
    """
    texts = {piece.text: index for index, piece in enumerate(pieces) if piece.type in (UNKNOWN, CONTROL)}
    unknown = next(index for index, piece in enumerate(pieces) if piece.type == UNKNOWN)
    has_bytes = any(piece.type == BYTE for piece in pieces)
    ids = {40: unknown, 41: texts.get("<s>", -1), 42: texts.get("</s>", -1), 43: texts.get("<pad>", -1)}
    training = {3: _KINDS[kind], 4: len(pieces), 35: int(has_bytes), **ids}
    names = _message(45, pieces[unknown].text.encode()) + _message(47, b"</s>")
    content = b"".join(_message(1, _piece(piece)) for piece in pieces)
    content += _message(2, b"".join(_number(*pair) for pair in training.items()) + names)
    return content + _message(3, _normalization(normalizer))


def _piece(piece: Piece) -> bytes:
    return _message(1, piece.text.encode()) + _tag(2, 5) + struct.pack("<f", piece.score) + _number(3, piece.type)


def _normalization(normalizer: TextNormalizer) -> bytes:
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
