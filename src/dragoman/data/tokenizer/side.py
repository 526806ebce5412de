"""One side of a tokenizer: text of one language to ids and back."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import final

import numpy as np

from dragoman.data.tokenizer.dropout import MergeTable
from dragoman.data.tokenizer.preparation import SPACE, Preparation
from dragoman.data.tokenizer.segmentation import (
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
        self._spelling = _spelling(segmentation.pieces)

    def __len__(self) -> int:
        """Entries of the vocabulary, special symbols included."""
        return len(self.segmentation.pieces)

    def normalise(self, text: str) -> str:
        """The text as the network sees it, and as `decode` gives it back."""
        return self.preparation.normalise(text)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without begin and end; an empty or blank text has none."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, in order, on all cores."""
        encodings = self._engine.encode_batch_fast(self._prepared(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encode_with_dropout(
        self, texts: Sequence[str], *, probability: float, generator: np.random.Generator
    ) -> list[list[int]]:
        """Ids under BPE dropout (Provilkov et al., 2020); the draws come from `generator`."""
        split = self._engine.pre_tokenizer.pre_tokenize_str
        words = [[word for word, _ in split(text)] if text else [] for text in self._prepared(texts)]
        return self._merge_table.segment(words, probability=probability, generator=generator)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a sequence: begin, end and padding are skipped, an unknown symbol is written `⁇`.

        Bytes that are no UTF-8, which only a network writes, become U+FFFD; the text never holds a line break.
        """
        spelt = b"".join([self._spelling[index] for index in ids])
        return " ".join(spelt.decode("utf-8", errors="replace").split())

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Readable pieces: `▁dog`, `s`, `<0xC3>`, `<end>`."""
        return [self.segmentation.pieces[index].removeprefix(" ") for index in ids]

    @cached_property
    def _merge_table(self) -> MergeTable:
        if not isinstance(self.segmentation, Merges):
            raise TypeError("dropout of merges needs byte pair encoding")
        return MergeTable(self.segmentation, plain=self._encode_word)

    def _encode_word(self, word: str) -> list[int]:
        return [token.id for token in self._engine.model.tokenize(word)]

    def _prepared(self, texts: Sequence[str]) -> list[str]:
        mark, normalise = self.preparation.mark, self.preparation.normalise
        return [mark(normalise(text)) for text in texts]


def _spelling(pieces: tuple[str, ...]) -> list[bytes]:
    """What each id writes, as bytes."""
    spelling = [piece.replace(SPACE, " ").encode() for piece in pieces]
    for index in (PAD, BEGIN, END):
        spelling[index] = b""
    spelling[UNKNOWN] = f" {UNKNOWN_MARK} ".encode()
    if has_bytes(pieces):
        spelling[len(SPECIALS) : len(SPECIALS) + len(BYTES)] = [bytes([byte]) for byte in range(256)]
    return spelling
