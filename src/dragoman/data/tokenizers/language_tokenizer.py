"""One side of a tokenizer: text of one language to ids and back."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import final

import numpy as np

from dragoman.data.tokenizers.bpe_dropout import MergeTable
from dragoman.data.tokenizers.normalization import Preparation
from dragoman.data.tokenizers.offsets import Span, encode_with_offsets
from dragoman.data.tokenizers.streaming_decoder import Decoder
from dragoman.data.tokenizers.vocabulary import (
    BEGIN,
    BYTES,
    END,
    PAD,
    SPECIALS,
    UNKNOWN,
    Merges,
    Segmentation,
    build_engine,
    has_bytes,
)

UNKNOWN_MARK = "⁇"
"""Written where a sequence holds the unknown symbol."""


@final
class Side:
    """Text to ids and back; `decode(encode(text)) == normalise(text)` wherever nothing is unknown."""

    def __init__(self, segmentation: Segmentation, preparation: Preparation) -> None:
        self.segmentation = segmentation
        self.preparation = preparation
        self._engine = build_engine(segmentation, preparation)
        self._spelling = _spelling(segmentation.pieces, preparation)

    def __len__(self) -> int:
        """Entries of the vocabulary, special symbols included."""
        return len(self.segmentation.pieces)

    def normalise(self, text: str) -> str:
        """The text as the network sees it, and as `decode` gives it back."""
        return self.preparation.normalise(text)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without begin and end; an empty text has none, nor a blank one unless white space is kept."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, in order, on all cores."""
        return self._encode_prepared(self._prepared(texts))

    def spell(self, unit: str) -> list[int]:
        """Ids of a stretch of a marked text inside which pieces are learnt, such as `▁dog`, or of a part of one."""
        return [token.id for token in self._engine.model.tokenize(unit)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Ids, and the span of the text itself, as it was before normalisation, that each stands for.

        White space around a word is no part of its span.
        """
        bytes_begin = len(SPECIALS)
        byte_ids = range(bytes_begin, bytes_begin + len(BYTES)) if has_bytes(self.segmentation.pieces) else range(0)
        return encode_with_offsets(text, engine=self._engine, preparation=self.preparation, byte_ids=byte_ids)

    def encode_passages(self, passages: Sequence[str], *, continues: Sequence[bool]) -> list[list[int]]:
        """Ids of the passages of long texts; those of a text, joined, are the ids of the text.

        A passage `continues` the text of the one before or begins one. It must end after a line break unless it is the
        last of its text, and the line that follows must hold a letter or digit.
        """
        mark, normalise = self.preparation.mark, self.preparation.normalise
        return self._encode_prepared(
            [mark(normalise(text), continues=follows) for text, follows in zip(passages, continues, strict=True)]
        )

    def encode_with_dropout(
        self, texts: Sequence[str], *, probability: float, generator: np.random.Generator
    ) -> list[list[int]]:
        """Ids under BPE dropout (Provilkov et al., 2020); the draws come from `generator`."""
        split = self._engine.pre_tokenizer.pre_tokenize_str
        words = [[word for word, _ in split(text)] if text else [] for text in self._prepared(texts)]
        return self._merge_table.segment(words, probability=probability, generator=generator)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a sequence: begin, end and padding are skipped, an unknown symbol is written `⁇`.

        Bytes that are no UTF-8, which only a network writes, become U+FFFD. The text never holds a line break unless
        white space is kept.
        """
        spelt = b"".join([self._spelling[index] for index in ids])
        return self.preparation.unmark(spelt.decode("utf-8", errors="replace"))

    def decoder(self, after: Iterable[int] = ()) -> Decoder:
        """What `decode` gives, id by id, for a sequence that goes on `after` these ids."""
        decoder = Decoder(self._spelling, self.preparation)
        for index in after:
            decoder.add(index)
        return decoder

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Readable pieces: `▁dog`, `s`, `<0xC3>`, `<end>`; where white space is kept, ` ` is the sign `▁` itself."""
        pieces = self.segmentation.pieces
        return [pieces[index][1:] if index < len(SPECIALS) else pieces[index] for index in ids]

    @cached_property
    def _merge_table(self) -> MergeTable:
        if not isinstance(self.segmentation, Merges):
            raise TypeError("dropout of merges needs byte pair encoding")
        return MergeTable(self.segmentation, plain=self.spell)

    def _encode_prepared(self, prepared: Sequence[str]) -> list[list[int]]:
        encodings = self._engine.encode_batch_fast(prepared, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _prepared(self, texts: Sequence[str]) -> list[str]:
        mark, normalise = self.preparation.mark, self.preparation.normalise
        return [mark(normalise(text)) for text in texts]


def _spelling(pieces: tuple[str, ...], preparation: Preparation) -> list[bytes]:
    """What each id writes into a marked text, as bytes."""
    spelling = [piece.encode() for piece in pieces]
    for index in (PAD, BEGIN, END):
        spelling[index] = b""
    spelling[UNKNOWN] = (UNKNOWN_MARK if preparation.whitespace == "keep" else f" {UNKNOWN_MARK} ").encode()
    if has_bytes(pieces):
        spelling[len(SPECIALS) : len(SPECIALS) + len(BYTES)] = [bytes([byte]) for byte in range(256)]
    return spelling
