"""SentencePiece models (Kudo and Richardson, 2018), alone or with a separate vocabulary.

Marian's models for `transformers` and M2M100 number the pieces by a vocabulary of their own. A piece that the
SentencePiece model does not know is looked up there, too.
"""

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, final

from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.offsets import Span
from dragoman.data.tokenizers.token_library import check_size, library_errors
from dragoman.errors import DataError

MAX_MODEL = 32 * 2**20
"""Bytes of a model; those of the largest published vocabularies, 256,000 tokens, have 5 MB."""


@final
class SentencePieceLibrary:
    """Tokenizer of a serialized SentencePiece model.

    `vocabulary` holds the foreign ids of pieces; without it, the ids are those of the model. `hidden` are ids that
    write nothing into a text, besides the control symbols of the model. Raises DataError if the model is invalid.
    """

    unit: Literal["character", "word"] = "character"
    is_streamable = True

    def __init__(
        self,
        model: bytes,
        *,
        vocabulary: Mapping[str, int] | None = None,
        hidden: Collection[int] = (),
        splits_unknown: bool = False,
    ) -> None:
        """Read a model; with `splits_unknown`, each character outside of the vocabulary is a token of its own.

        SentencePiece makes one token of all such characters in a row; the engine of Firefox does not.
        """
        if not 0 < len(model) <= MAX_MODEL:
            raise DataError(f"The SentencePiece model has {len(model):,} bytes. Use the file of the original model.")
        import sentencepiece  # takes 0.2 s

        self._content = model
        self._vocabulary = None if vocabulary is None else dict(vocabulary)
        self._own_hidden = sorted(hidden)
        self._splits_unknown = splits_unknown
        with library_errors("The SentencePiece model cannot be read"):
            self._model = sentencepiece.SentencePieceProcessor(model_proto=model)
            size = self._model.get_piece_size()
            check_size(size)
            pieces = tuple(map(self._model.id_to_piece, range(size)))
            self._model.decode(self._model.encode("A text: 1 é 語 😀"))
        control = {pieces[index]: index for index in range(size) if self._model.is_control(index)}
        byte_pieces = {pieces[index]: index for index in range(size) if self._model.is_byte(index)}
        ids = {piece: index for index, piece in enumerate(pieces)} if self._vocabulary is None else self._vocabulary
        self.tokens = pieces if self._vocabulary is None else _in_order(self._vocabulary)
        self.hidden = frozenset(hidden) | {ids[piece] for piece in control if piece in ids}
        self.control_tokens = frozenset[str]()  # texts never have control symbols
        self.byte_ids = tuple(sorted(ids[piece] for piece in byte_pieces if piece in ids))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the foreign ids of texts, which hold no lone surrogates; -1 for a piece without an id."""
        with library_errors("The SentencePiece model cannot encode this text"):
            # One by one: for a list the library starts threads, which takes longer than to encode ten sentences.
            if self._vocabulary is None:
                found = [self._model.encode(text, return_type=int) for text in texts]
                return [self._split(*row) for row in zip(texts, found, strict=True)] if self._splits_unknown else found
            ids = self._vocabulary
            return [[ids.get(one, -1) for one in self._model.encode(text, return_type=str)] for text in texts]

    def with_split_unknown(self) -> "SentencePieceLibrary":
        """Return the tokenizer with a token for each character outside of the vocabulary."""
        return SentencePieceLibrary(
            self._content, vocabulary=self._vocabulary, hidden=self._own_hidden, splits_unknown=True
        )

    def _split(self, text: str, ids: list[int]) -> list[int]:
        """Return the ids of a text with an unknown token for each character of an unknown piece."""
        unknown = self._model.unk_id()
        if unknown not in ids:
            return ids
        pieces = self._model.encode(text, return_type=str)
        counts = [len(piece) if index == unknown else 1 for piece, index in zip(pieces, ids, strict=True)]
        return [index for index, count in zip(ids, counts, strict=True) for _ in range(count)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the foreign ids of a text, and the span of each; white space may be part of it."""
        with library_errors("The SentencePiece model cannot encode this text"):
            found = self._model.encode(text, return_type="offset_mapping")
        spans: list[Span] = list(found["offsets"])
        for place in reversed(range(len(spans) - 1)):
            # Of the pieces that spell one character, the last one has its span.
            if spans[place][0] == spans[place][1] and found["pieces"][place] != SPACE:
                spans[place] = spans[place + 1]
        if self._splits_unknown:
            unknown = self._model.unk_id()
            rows = zip(found["ids"], found["pieces"], spans, strict=True)
            split = [(index, span) for index, piece, span in rows for _ in range(len(piece) if index == unknown else 1)]
            return [index for index, _ in split], [span for _, span in split]
        if self._vocabulary is None:
            return list(found["ids"]), spans
        return [self._vocabulary.get(piece, -1) for piece in found["pieces"]], spans

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of foreign ids."""
        with library_errors("The SentencePiece model cannot decode these tokens"):
            if self._vocabulary is None:
                return str(self._model.decode(list(ids)))
            text = str(self._model.decode([self.tokens[index] for index in ids]))
            return text.removeprefix(SPACE).replace(SPACE, " ")  # of pieces that the model itself does not have

    def readable(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of foreign ids."""
        return [self.tokens[index] for index in ids]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON tree that the library is built from."""
        return {
            "kind": "sentencepiece",
            "model": base64.b64encode(self._content).decode(),
            "vocabulary": None if self._vocabulary is None else [piece or None for piece in self.tokens],
            "hidden": self._own_hidden,
        }


def _in_order(vocabulary: Mapping[str, int]) -> tuple[str, ...]:
    """Return the pieces by id; an id without a piece has an empty one. Raises DataError for invalid ids."""
    ids = vocabulary.values()
    if not vocabulary or min(ids) < 0:
        raise DataError("The vocabulary is empty or has a negative id. Use the file of the original model.")
    check_size(1 + max(ids))
    tokens = [""] * (1 + max(ids))
    for piece, index in vocabulary.items():
        tokens[index] = piece
    return tuple(tokens)
