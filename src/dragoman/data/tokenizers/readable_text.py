"""Typography that a vocabulary lacks: read as its plain equivalent, such as “ as a straight quotation mark.

Training texts often have straight quotation marks only. A model that reads an unknown token in place of a curly one
loses it, and mistranslates the words next to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

import numpy as np

from dragoman.data.tokenizers.label_text import read_label
from dragoman.data.tokenizers.language_tokenizer import LanguageTokenizer, StreamingDecoder
from dragoman.data.tokenizers.offsets import Span
from dragoman.data.tokenizers.vocabulary import UNK

DOUBLE_QUOTES: Final = "“”„‟«»〝〞"
SINGLE_QUOTES: Final = "’‘‚‛ʼ‹›"
DASHES: Final = "—–―‒−‐‑⸺"
_LONG_DASHES: Final = "—―⸺"
_SPACES: Final = "\u00a0\u202f\u2009\u200a\u2002\u2003\u2007\u2008"
_INVISIBLE: Final = "\u00ad\u200b\u2060\ufeff\u200e\u200f"
PLAIN: Final = {
    **dict.fromkeys(DOUBLE_QUOTES, '"'),
    **dict.fromkeys(SINGLE_QUOTES, "'"),
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(_SPACES, " "),
    **dict.fromkeys(_INVISIBLE, ""),
    "…": "...",
    "′": "'",
    "″": '"',
}
"""Typographic characters and their plain equivalents."""


@final
class ReadableTokenizer:
    """Tokenizer that reads typography which its vocabulary lacks as plain characters that it has."""

    def __init__(self, inner: LanguageTokenizer, *, labels: bool) -> None:
        """Find out which characters the vocabulary lacks; with `labels`, read labels and headings as running text."""
        self._inner = inner
        self._labels = labels
        encoded = dict(zip(PLAIN, inner.encode_batch([f"a{character}a" for character in PLAIN]), strict=True))
        plain = {text: self._is_known(inner.encode(f"a{text}a")) for text in set(PLAIN.values())}
        self._plain = {one: text for one, text in PLAIN.items() if plain[text] and not self._is_known(encoded[one])}

    def _is_known(self, ids: Sequence[int]) -> bool:
        return UNK not in ids and not any(index in self._inner.byte_ids for index in ids)

    def plain_text(self, text: str) -> str:
        """Return a text as the vocabulary can read it."""
        text = self._without_label(text)
        return text if text.isascii() or self._plain.keys().isdisjoint(text) else "".join(self._pieces(text))

    def _without_label(self, text: str) -> str:
        return read_label(text) if self._labels and (text.isupper() or text.endswith(("...", "…"))) else text

    def _pieces(self, text: str) -> Iterator[str]:
        """Yield the plain equivalent of each character; a dash between two words is no hyphen."""
        for place, character in enumerate(text):
            plain = self._plain.get(character, character)
            around = text[place - 1 : place].isalnum() and text[place + 1 : place + 2].isalnum()
            yield f" {plain} " if plain == "-" and character in _LONG_DASHES and around else plain

    def can_write(self, character: str) -> bool:
        """Return whether the vocabulary has a character, and not only its plain equivalent."""
        ids = self._inner.encode(character)
        return self._is_known(ids) and self._inner.decode(ids).strip() == character.strip()

    def __len__(self) -> int:
        """Return the vocabulary size, special tokens included."""
        return len(self._inner)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Token of each id, as its vocabulary spells it."""
        return self._inner.tokens

    @property
    def byte_ids(self) -> Sequence[int]:
        """Ids of the byte tokens."""
        return self._inner.byte_ids

    @property
    def control_tokens(self) -> frozenset[str]:
        """Texts that `encode` reads as special symbols."""
        return self._inner.control_tokens

    @property
    def unit(self) -> str:
        """Smallest part of a text that is in the vocabulary or not."""
        return self._inner.unit

    def normalize(self, text: str) -> str:
        """Return the text as the tokenizer reads it."""
        return self._inner.normalize(self.plain_text(text))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return self._inner.encode(self.plain_text(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, in order."""
        return self._inner.encode_batch(list(map(self.plain_text, texts)))

    def read_ids(self, ids: Iterable[int]) -> list[int]:
        """Return our ids of given ids."""
        return self._inner.read_ids(ids)

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the ids and the span of the text, before anything is replaced, of each id."""
        plain = self.plain_text(text)
        if plain == text:
            return self._inner.encode_with_offsets(text)
        places: list[int] = []
        for place, piece in enumerate(self._pieces(self._without_label(text))):
            places += [place] * len(piece)
        places.append(len(text))
        ids, spans = self._inner.encode_with_offsets(plain)
        ends = [place + 1 for place in places]
        return ids, [(places[begin], ends[end - 1] if end > begin else places[begin]) for begin, end in spans]

    def encode_passages(self, passages: Sequence[str], *, continues: Sequence[bool]) -> list[list[int]]:
        """Return the ids of passages of long texts."""
        return self._inner.encode_passages(list(map(self.plain_text, passages)), continues=continues)

    def encode_with_dropout(
        self, texts: Sequence[str], *, probability: float, generator: np.random.Generator
    ) -> list[list[int]]:
        """Return ids under BPE dropout."""
        plain = list(map(self.plain_text, texts))
        return self._inner.encode_with_dropout(plain, probability=probability, generator=generator)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a sequence."""
        return self._inner.decode(ids)

    def streaming_decoder(self, after: Iterable[int] = ()) -> StreamingDecoder:
        """Return a decoder that gives the text of `decode` id by id."""
        return self._inner.streaming_decoder(after)

    def ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return readable tokens."""
        return self._inner.ids_to_tokens(ids)

    def missing_units(self, text: str, ids: Iterable[int]) -> list[str]:
        """Return the different characters, or words, that are not in the vocabulary, nor their plain equivalents."""
        return self._inner.missing_units(self.plain_text(text), ids)
