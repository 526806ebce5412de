"""Tokenizer of another program, with its ids in our order.

The special symbols of the other program have our ids 0 to 3, which a recorded order says for every id. Texts have the
same tokens as in the other program.
"""

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal, final

import numpy as np
from pydantic import Field, TypeAdapter

from dragoman.data.tokenizers.normalization import SURROGATE
from dragoman.data.tokenizers.offsets import Span
from dragoman.data.tokenizers.sentencepiece_library import SentencePieceLibrary
from dragoman.data.tokenizers.token_library import TokenLibrary, check_size, library_errors
from dragoman.data.tokenizers.tokenizers_library import TokenizersLibrary
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, unknown_id
from dragoman.errors import ConfigError, DataError

ADDED: Final = -1
"""Foreign id of an id that the other program does not have."""
_INCOMPLETE: Final = "\ufffd"
"""Text of bytes that are no complete character."""


def tokenizer_from_json(content: str | bytes, *, order: Iterable[int]) -> "ImportedTokenizer":
    """Return the tokenizer of a `tokenizers` JSON file; `order` is described by `ImportedTokenizer`.

    Raises DataError if the file or the order is invalid.
    """
    if isinstance(content, bytes):
        with library_errors("The tokenizer is not UTF-8"):
            content = content.decode()
    return ImportedTokenizer(TokenizersLibrary(content), order)


def tokenizer_from_sentencepiece(
    model: bytes,
    *,
    order: Iterable[int],
    vocabulary: Mapping[str, int] | None = None,
    hidden: Collection[int] = (),
) -> "ImportedTokenizer":
    """Return the tokenizer of a SentencePiece model; `order` is described by `ImportedTokenizer`.

    `vocabulary` holds the foreign ids of the pieces where they are not those of the model, as in Marian's and M2M100's
    `vocab.json`. `hidden` are foreign ids that write nothing into a text, such as those of languages, besides the
    control symbols of the model. Raises DataError if the model, the vocabulary or the order is invalid.
    """
    return ImportedTokenizer(SentencePieceLibrary(model, vocabulary=vocabulary, hidden=hidden), order)


@final
class ImportedTokenizer:
    """Text to ids and back with the tokenizer of another program.

    `order` holds the foreign id of each of our ids: those of PAD, UNK, BOS and EOS, and then those of all other
    symbols. -1 (`ADDED`) stands for a symbol that the other program lacks. A foreign id that occurs twice is encoded as
    the last one. Raises DataError if an id is invalid.
    """

    def __init__(self, library: TokenLibrary, order: Iterable[int]) -> None:
        self.library = library
        self.order = tuple(map(int, order))
        check_size(len(self.order))
        if len(self.order) < len(SPECIAL_TOKENS) or min(self.order) < ADDED:
            raise DataError("The order of the vocabulary lacks special symbols, or has a negative id.")
        check_size(1 + max(self.order))
        # The last entry, which -1 indexes, stands for tokens without an id.
        self._our_ids = [UNK] * (2 + max(len(library.tokens), *self.order))
        for index, foreign in enumerate(self.order):
            if foreign != ADDED:
                self._our_ids[foreign] = index

    def __len__(self) -> int:
        """Return the vocabulary size, special tokens included."""
        return len(self.order)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Token of each id, as its vocabulary spells it."""
        foreign, size = self.library.tokens, len(self.library.tokens)
        named = [foreign[index] if 0 <= index < size else "" for index in self.order[len(SPECIAL_TOKENS) :]]
        return (*SPECIAL_TOKENS, *named)

    @cached_property
    def byte_ids(self) -> tuple[int, ...]:
        """Ids of the byte tokens, which spell any character; empty if there are none."""
        return tuple(index for index in (self._our_ids[one] for one in self.library.byte_ids) if index != UNK)

    @cached_property
    def control_tokens(self) -> frozenset[str]:
        """Texts that `encode` reads as special symbols."""
        return self.library.control_tokens

    @property
    def unit(self) -> str:
        """Smallest part of a text that is in the vocabulary or not: `character` or `word`."""
        return self.library.unit

    def normalize(self, text: str) -> str:
        """Return the text with U+FFFD for lone surrogates: the other program normalizes what it encodes."""
        return text if text.isascii() else SURROGATE.sub("\ufffd", text)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, in order, computed on all cores."""
        ours = self._our_ids
        return [[ours[index] for index in row] for row in self.library.encode_batch(list(map(self.normalize, texts)))]

    def read_ids(self, ids: Iterable[int]) -> list[int]:
        """Return our ids of ids of the other program. Raises DataError if one is not in the vocabulary."""
        found = []
        for index in ids:
            if index not in self._ids_by_foreign:
                raise unknown_id(index)
            found.append(self._ids_by_foreign[index])
        return found

    @cached_property
    def _ids_by_foreign(self) -> dict[int, int]:
        return {foreign: index for index, foreign in enumerate(self.order) if foreign != ADDED}

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the ids and the span of the original text of each id, without the white space around a word."""
        text = self.normalize(text)
        ids, spans = self.library.encode_with_offsets(text)
        return [self._our_ids[index] for index in ids], [_without_spaces(text, span) for span in spans]

    def encode_passages(self, passages: Sequence[str], *, continues: Sequence[bool]) -> list[list[int]]:
        """Return the ids of passages of long texts; the ids of a text are those of its passages, concatenated.

        A passage that continues a text is encoded after a line break, which the passage before it ends with. The other
        program may put that line break and the indentation of the next line into one token; here they are two.
        """
        encoded = self.encode_batch(["\n" * follows + text for text, follows in zip(passages, continues, strict=True)])
        line_break = self.encode("\n")
        size = len(line_break)
        return [
            ids[size:] if follows and ids[:size] == line_break else ids
            for ids, follows in zip(encoded, continues, strict=True)
        ]

    def encode_with_dropout(
        self,
        texts: Sequence[str],  # noqa: ARG002
        *,
        probability: float,
        generator: np.random.Generator,  # noqa: ARG002
    ) -> list[list[int]]:
        """Raise ConfigError: BPE dropout needs a vocabulary that was trained here."""
        raise ConfigError(f"tokenizer.dropout = {probability}: an imported tokenizer has no BPE dropout. Leave it out.")

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a sequence as the other program does; PAD, BOS, EOS and hidden symbols are skipped."""
        return self.library.decode(self.visible(ids))

    def streaming_decoder(self, after: Iterable[int] = ()) -> "ImportedStreamingDecoder":
        """Return a decoder that gives the text of `decode` id by id, for a sequence that continues the ids `after`."""
        return ImportedStreamingDecoder(self, after)

    def ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return readable tokens: `▁dog`, `s`, `<0xC3>`, `<eos>`."""
        ids, size = list(ids), len(self.library.tokens)
        named = [index for index in ids if index > EOS and 0 <= self.order[index] < size]
        texts = iter(self.library.readable([self.order[index] for index in named]))
        known = {place for place, index in enumerate(ids) if index > EOS and 0 <= self.order[index] < size}
        return [
            next(texts) if place in known else SPECIAL_TOKENS[index][1:] if index <= EOS else f"<{index}>"
            for place, index in enumerate(ids)
        ]

    def missing_units(self, text: str, ids: Iterable[int]) -> list[str]:
        """Return the different characters, or words, of a text that are not in the vocabulary.

        `ids` are those of the text.
        """
        if UNK not in ids:
            return []
        found, spans = self.encode_with_offsets(text)
        unknown = [text[slice(*span)] for index, span in zip(found, spans, strict=True) if index == UNK]
        return list(dict.fromkeys(unknown if self.unit == "word" else "".join(unknown)))

    def visible(self, ids: Iterable[int]) -> list[int]:
        """Return the foreign ids of those ids that write something into a text."""
        size, hidden = len(self.library.tokens), self.library.hidden
        foreign = (self.order[index] for index in ids if index not in (PAD, BOS, EOS))
        return [index for index in foreign if 0 <= index < size and index not in hidden]


@final
class ImportedStreamingDecoder:
    """Incremental decoder that returns text as soon as it is final.

    The text of new ids is the difference between the texts of some ids before them with and without them: it depends on
    what precedes it, such as a space before a word. Bytes wait for the end of their run, and incomplete characters for
    their last token.
    """

    def __init__(self, tokenizer: ImportedTokenizer, after: Iterable[int]) -> None:
        self._tokenizer = tokenizer
        self._bytes = frozenset(tokenizer.byte_ids)
        self._before = self._context([index for index in after if tokenizer.visible([index])])
        self._pending: list[int] = []

    def add(self, index: int) -> str:
        """Return the text that the next id makes final, often none."""
        if not self._tokenizer.visible([index]):
            return ""
        self._pending.append(index)
        if index in self._bytes or not self._tokenizer.library.is_streamable:
            return ""
        text = self._new_text()
        return "" if text.endswith(_INCOMPLETE) else self._flush(text)

    def finish(self) -> str:
        """Return the rest of the text."""
        return self._flush(self._new_text())

    def _new_text(self) -> str:
        decode = self._tokenizer.decode
        return decode([*self._before, *self._pending])[len(decode(self._before)) :]

    def _flush(self, text: str) -> str:
        self._before, self._pending = self._context([*self._before, *self._pending]), []
        return text

    def _context(self, ids: list[int]) -> list[int]:
        """Return the last ids that the text of further ids depends on: from the last complete word or part of one."""
        for place in reversed(range(len(ids))):
            text = self._tokenizer.decode([ids[place]])
            if text.strip() and _INCOMPLETE not in text and ids[place] not in self._bytes:
                return ids[place:]
        return ids


def _without_spaces(text: str, span: Span) -> Span:
    """Return the span without the white space at its ends, unless it holds nothing else."""
    part = text[slice(*span)]
    inner = part.strip()
    if not inner:
        return span
    start = span[0] + len(part) - len(part.lstrip())
    return start, start + len(inner)


def imported_to_json(tokenizer: ImportedTokenizer) -> dict[str, Any]:
    """Return the JSON tree of an imported tokenizer."""
    return {"order": list(tokenizer.order), "library": tokenizer.library.to_json()}


def imported_from_json(tree: Mapping[str, Any]) -> ImportedTokenizer:
    """Return the tokenizer of a tree by `imported_to_json`. Raises DataError or ValueError if it is invalid."""
    record: _Record = TypeAdapter(_Record).validate_python(tree)
    return ImportedTokenizer(_library_from_json(record.library), record.order)


def _library_from_json(record: "_TokenizersRecord | _SentencePieceRecord") -> TokenLibrary:
    if isinstance(record, _TokenizersRecord):
        return TokenizersLibrary(record.tokenizer)
    pieces = record.vocabulary
    vocabulary = None if pieces is None else {piece: n for n, piece in enumerate(pieces) if piece is not None}
    return SentencePieceLibrary(base64.b64decode(record.model), vocabulary=vocabulary, hidden=record.hidden)


@dataclass(frozen=True)
class _TokenizersRecord:
    kind: Literal["tokenizers"]
    tokenizer: str | dict[str, Any]


@dataclass(frozen=True)
class _SentencePieceRecord:
    kind: Literal["sentencepiece"]
    model: str
    vocabulary: list[str | None] | None
    hidden: list[int]


@dataclass(frozen=True)
class _Record:
    order: list[int]
    library: Annotated[_TokenizersRecord | _SentencePieceRecord, Field(discriminator="kind")]
