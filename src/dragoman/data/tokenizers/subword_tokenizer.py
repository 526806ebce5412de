"""Tokenizer of a vocabulary trained here."""

import codecs
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import final

import numpy as np

from dragoman.data.tokenizers.bpe_dropout import BpeDropout
from dragoman.data.tokenizers.language_tokenizer import UNK_SURFACE
from dragoman.data.tokenizers.normalization import SPACE, TextNormalizer
from dragoman.data.tokenizers.offsets import Span, encode_with_offsets
from dragoman.data.tokenizers.vocabulary import (
    SYMBOL_START,
    UNK,
    BpeModel,
    SubwordModel,
    WordModel,
    build_hf_tokenizer,
    byte_token_ids,
    unknown_id,
)


@final
class SubwordStreamingDecoder:
    """Incremental decoder that returns text as soon as it is final.

    The results of `add` and `finish`, joined, equal `SubwordTokenizer.decode` of all ids. An incomplete character
    waits for its last byte. A space waits for the next word if white space is collapsed.
    """

    def __init__(self, token_bytes: Sequence[bytes], normalizer: TextNormalizer) -> None:
        """`token_bytes` holds the bytes that each id writes into a text with escaped spaces."""
        self._token_bytes = token_bytes
        self._normalizer = normalizer
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._begun = False
        self._space = False

    def add(self, index: int) -> str:
        """Return the text that the next id makes final, often none."""
        return self._final_text(self._bytes.decode(self._token_bytes[index]))

    def finish(self) -> str:
        """Return the rest of the text: U+FFFD for an incomplete character."""
        return self._final_text(self._bytes.decode(b"", final=True))

    def _final_text(self, escaped: str) -> str:
        text = self._normalizer.unescape_spaces(escaped)
        if self._normalizer.whitespace == "keep" or not escaped:
            return text
        if not text:
            self._space = True
            return ""
        before = " " if self._begun and (self._space or _is_space(escaped[0])) else ""
        self._begun, self._space = True, _is_space(escaped[-1])
        return before + text


@final
class SubwordTokenizer:
    """Text to ids and back; `decode(encode(text)) == normalize(text)` unless a token is unknown."""

    def __init__(self, model: SubwordModel, normalizer: TextNormalizer) -> None:
        self.model = model
        self.normalizer = normalizer
        self._hf_tokenizer = build_hf_tokenizer(model, normalizer)
        self._token_bytes = _token_bytes(model.vocab, normalizer)

    def __len__(self) -> int:
        """Return the vocabulary size, special tokens included."""
        return len(self.model.vocab)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Token of each id."""
        return self.model.vocab

    @property
    def byte_ids(self) -> range:
        """Ids of the byte tokens, which spell any character; empty if there are none."""
        return byte_token_ids(self.model.vocab)

    def normalize(self, text: str) -> str:
        """Return the text as `decode` restores it."""
        return self.normalizer.normalize(text)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, in order, computed on all cores."""
        return self._encode_normalized(map(self.normalizer.normalize_and_escape, texts))

    def encode_word(self, unit: str) -> list[int]:
        """Return the ids of a pre-tokenized unit with escaped spaces, such as `▁dog`, or of a part of one."""
        return [token.id for token in self._hf_tokenizer.model.tokenize(unit)]

    def read_ids(self, ids: Iterable[int]) -> list[int]:
        """Return the same ids. Raises DataError if one is not in the vocabulary."""
        found = list(ids)
        for index in found:
            if not 0 <= index < len(self):
                raise unknown_id(index)
        return found

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the ids and the span of the original text, before normalization, of each id.

        White space around a word is not part of its span.
        """
        return encode_with_offsets(
            text, tokenizer=self._hf_tokenizer, normalizer=self.normalizer, byte_ids=self.byte_ids
        )

    def encode_passages(self, passages: Sequence[str], *, continues: Sequence[bool]) -> list[list[int]]:
        """Return the ids of passages of long texts; the ids of a text are those of its passages, concatenated.

        A passage `continues` the text of the passage before it or begins a text. Except at the end of a text, a passage
        must end after a line break, and the next line must hold a letter or digit.
        """
        escape, each = self.normalizer.normalize_and_escape, zip(passages, continues, strict=True)
        return self._encode_normalized(escape(text, continues=follows) for text, follows in each)

    def encode_with_dropout(
        self, texts: Sequence[str], *, probability: float, generator: np.random.Generator
    ) -> list[list[int]]:
        """Return ids under BPE dropout (Provilkov et al., 2020), drawn from `generator`."""
        split = self._hf_tokenizer.pre_tokenizer.pre_tokenize_str
        normalized = map(self.normalizer.normalize_and_escape, texts)
        words = [[word for word, _ in split(text)] if text else [] for text in normalized]
        return self._bpe_dropout.encode(words, probability=probability, generator=generator)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a sequence; BOS, EOS and PAD are skipped, an unknown token becomes `⁇`.

        Bytes that are not UTF-8 become U+FFFD. The text holds no line break unless white space is kept.
        """
        encoded = b"".join([self._token_bytes[index] for index in ids])
        return self.normalizer.unescape_spaces(encoded.decode("utf-8", errors="replace"))

    def streaming_decoder(self, after: Iterable[int] = ()) -> SubwordStreamingDecoder:
        """Return a decoder that gives the text of `decode` id by id, for a sequence that continues the ids `after`."""
        decoder = SubwordStreamingDecoder(self._token_bytes, self.normalizer)
        for index in after:
            decoder.add(index)
        return decoder

    def ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return readable tokens: `▁dog`, `s`, `<0xC3>`, `<eos>`; if white space is kept, ` ` stands for `▁` itself."""
        tokens = (self.model.vocab[index] for index in ids)
        return [token[1:] if token.startswith(SYMBOL_START) else token for token in tokens]

    @property
    def control_tokens(self) -> frozenset[str]:
        """Texts that `encode` reads as special symbols: none."""
        return frozenset()

    @property
    def unit(self) -> str:
        """Smallest part of a text that is in the vocabulary or not: `character`, or `word` in a vocabulary of words."""
        return "word" if isinstance(self.model, WordModel) else "character"

    def missing_units(self, text: str, ids: Iterable[int]) -> list[str]:
        """Return the different characters, or words, of a text that are not in the vocabulary.

        `ids` are those of the text. One without unknown and byte tokens is not read.
        """
        if self._makeshift_ids.isdisjoint(ids):
            return []
        escaped, vocab = self.normalizer.normalize_and_escape(text), self._vocab
        units: Iterable[str] = escaped
        if isinstance(self.model, WordModel):
            units = (unit for unit, _ in self._hf_tokenizer.pre_tokenizer.pre_tokenize_str(escaped))
        return [self.normalizer.unescape_spaces(unit) for unit in dict.fromkeys(units) if unit not in vocab]

    @cached_property
    def _makeshift_ids(self) -> frozenset[int]:
        """Ids of the unknown token and of bytes, which encode characters that are not in the vocabulary."""
        return frozenset([UNK, *self.byte_ids])

    @cached_property
    def _vocab(self) -> frozenset[str]:
        return frozenset(self.model.vocab)

    @cached_property
    def _bpe_dropout(self) -> BpeDropout:
        if not isinstance(self.model, BpeModel):
            raise TypeError("BPE dropout needs byte pair encoding")
        return BpeDropout(self.model, plain=self.encode_word)

    def _encode_normalized(self, texts: Iterable[str]) -> list[list[int]]:
        return [found.ids for found in self._hf_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def _token_bytes(vocab: tuple[str, ...], normalizer: TextNormalizer) -> list[bytes]:
    """Return the bytes that each id writes into a text with escaped spaces."""
    encoded = [b"" if token.startswith(SYMBOL_START) else token.encode() for token in vocab]
    encoded[UNK] = (UNK_SURFACE if normalizer.whitespace == "keep" else f" {UNK_SURFACE} ").encode()
    for byte, index in enumerate(byte_token_ids(vocab)):
        encoded[index] = bytes([byte])
    return encoded


def _is_space(character: str) -> bool:
    return character == SPACE or character.isspace()
