"""Interface of a tokenizer of one language: text to ids and back, at once or id by id, as a model generates them."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from dragoman.data.tokenizers.offsets import Span

UNK_SURFACE = "⁇"
"""Text of the unknown token in decoded output."""


@runtime_checkable
class StreamingDecoder(Protocol):
    """Incremental decoder that returns text as soon as it is final.

    The results of `add` and `finish`, joined, equal `LanguageTokenizer.decode` of all ids.
    """

    def add(self, index: int) -> str:
        """Return the text that the next id makes final, often none."""

    def finish(self) -> str:
        """Return the rest of the text."""


@runtime_checkable
class LanguageTokenizer(Protocol):
    """Text to ids and back. The ids 0 to 3 are PAD, UNK, BOS and EOS.

    `SubwordTokenizer` has a vocabulary that was trained here, `ImportedTokenizer` one of another program.
    """

    def __len__(self) -> int:
        """Return the vocabulary size, special tokens included."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """Token of each id, as its vocabulary spells it."""

    @property
    def byte_ids(self) -> Sequence[int]:
        """Ids of the byte tokens, which spell any character; empty if there are none."""

    @property
    def control_tokens(self) -> frozenset[str]:
        """Texts that `encode` reads as special symbols; a tokenizer that was trained here has none."""

    @property
    def unit(self) -> str:
        """Smallest part of a text that is in the vocabulary or not: `character` or `word`."""

    def normalize(self, text: str) -> str:
        """Return the text as the tokenizer reads it; a normalized text has the same ids."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, in order, computed on all cores."""

    def read_ids(self, ids: Iterable[int]) -> list[int]:
        """Return our ids of given ids: for an imported tokenizer, those of the other program, otherwise the same.

        Raises DataError if one is not in the vocabulary.
        """

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the ids and the span of the original text, before normalization, of each id.

        White space around a word is not part of its span.
        """

    def encode_passages(self, passages: Sequence[str], *, continues: Sequence[bool]) -> list[list[int]]:
        """Return the ids of passages of long texts; the ids of a text are those of its passages, concatenated.

        A passage `continues` the text of the passage before it or begins a text. Except at the end of a text, a passage
        must end after a line break, and the next line must hold a letter or digit.
        """

    def encode_with_dropout(
        self, texts: Sequence[str], *, probability: float, generator: np.random.Generator
    ) -> list[list[int]]:
        """Return ids under BPE dropout (Provilkov et al., 2020), drawn from `generator`.

        Raises ConfigError if the tokenizer does not support it.
        """

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a sequence; BOS, EOS and PAD are skipped."""

    def streaming_decoder(self, after: Iterable[int] = ()) -> StreamingDecoder:
        """Return a decoder that gives the text of `decode` id by id, for a sequence that continues the ids `after`."""

    def ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return readable tokens: `▁dog`, `s`, `<0xC3>`, `<eos>`."""

    def missing_units(self, text: str, ids: Iterable[int]) -> list[str]:
        """Return the different characters, or words, of a text that are not in the vocabulary.

        `ids` are those of the text.
        """
