"""Tokenizers of the `tokenizers` library, built from their JSON file.

All models of the format (BPE, byte-level BPE, WordPiece, Unigram, WordLevel) work with their normalizers,
pre-tokenizers, decoders and added tokens. Truncation, padding and the symbols of the post-processor are not used.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, final

import tokenizers
from tokenizers import models

from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.offsets import Span
from dragoman.data.tokenizers.token_library import check_size, library_errors, spell_bytes

_LOCAL_DECODERS: Final = frozenset({"ByteLevel", "WordPiece", "Metaspace", "BPEDecoder", "ByteFallback"})
"""Decoders that write the text of a token next to that of the token before it, which does not change."""
_BYTE_TOKEN: Final = re.compile("<0x[0-9A-F]{2}>")
_PROBE: Final = "A text: 1 é 語 😀"


@final
class TokenizersLibrary:
    """Tokenizer of a `tokenizers` JSON text, or of its tree. Raises DataError if it is invalid."""

    def __init__(self, content: str | Mapping[str, Any]) -> None:
        self.content = content if isinstance(content, str) else json.dumps(content)
        with library_errors("The tokenizer cannot be built"):
            self._tokenizer = tokenizers.Tokenizer.from_str(self.content)
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            vocab = self._tokenizer.get_vocab(with_added_tokens=True)
            check_size(1 + max(vocab.values(), default=0))
            self.tokens = _in_order(vocab)
            self._added = self._tokenizer.get_added_tokens_decoder()
            self.decode(self._tokenizer.encode(_PROBE, add_special_tokens=False).ids)
            decoder = self._tokenizer.decoder
            decoder_tree = None if decoder is None else json.loads(decoder.__getstate__())
        self.hidden = frozenset(index for index, token in self._added.items() if token.special)
        self.control_tokens = frozenset(token.content for token in self._added.values() if token.special)
        self._model: models.Model = self._tokenizer.model
        self._decoders = list(_kinds(decoder_tree))
        is_of_words = isinstance(self._model, models.WordPiece | models.WordLevel)
        self.unit: Literal["character", "word"] = "word" if is_of_words else "character"
        has_bytes = "ByteFallback" in self._decoders
        self.byte_ids = tuple(n for n, token in enumerate(self.tokens) if has_bytes and _BYTE_TOKEN.fullmatch(token))
        self.is_streamable = _is_local(decoder_tree)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the foreign ids of texts, which hold no lone surrogates."""
        with library_errors("The tokenizer cannot encode this text"):
            return [one.ids for one in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the foreign ids of a text, and the span of each; white space may be part of it."""
        with library_errors("The tokenizer cannot encode this text"):
            found = self._tokenizer.encode(text, add_special_tokens=False)
        return found.ids, found.offsets

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of foreign ids."""
        with library_errors("The tokenizer cannot decode these tokens"):
            return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def readable(self, ids: Sequence[int]) -> list[str]:
        """Return readable tokens of foreign ids: `▁` for a space before a word, `<0xC3>` for a part of a character."""
        tokens = [self.tokens[index] for index in ids]
        return [
            token if index in self._added else one
            for index, token, one in zip(ids, tokens, self._spelled(tokens), strict=True)
        ]

    def _spelled(self, tokens: Sequence[str]) -> Iterable[str]:
        """Return the texts of tokens that are no added ones."""
        model = self._model
        if "ByteLevel" in self._decoders:
            return map(_bytes_as_text, tokens)
        if isinstance(model, models.WordLevel):
            return (SPACE + one for one in tokens)
        if isinstance(model, models.WordPiece):
            prefix = model.continuing_subword_prefix
            return (one.removeprefix(prefix) if one.startswith(prefix) else SPACE + one for one in tokens)
        suffix = model.end_of_word_suffix if isinstance(model, models.BPE) else None
        return _with_word_starts(tokens, suffix) if suffix else tokens

    def to_json(self) -> dict[str, Any]:
        """Return the JSON tree that the library is built from."""
        return {"kind": "tokenizers", "tokenizer": self.content}  # a text, whose parts are read once


def _in_order(vocab: Mapping[str, int]) -> tuple[str, ...]:
    """Return the tokens by id; an id without a token has an empty one."""
    tokens = [""] * (1 + max(vocab.values(), default=-1))
    for token, index in vocab.items():
        tokens[index] = token
    return tuple(tokens)


def _kinds(decoder: Any) -> Iterator[str]:
    """Yield the types of a decoder and of its members, in the JSON of the library."""
    if decoder is not None:
        yield decoder["type"]
        for member in decoder.get("decoders", ()):
            yield from _kinds(member)


def _is_local(decoder: Any) -> bool:
    """Return whether later tokens leave the text of earlier ones as it is."""
    match decoder:
        case None:
            return True
        case {"type": "Sequence", "decoders": [*members]}:
            fused = next((n for n, one in enumerate(members) if one["type"] == "Fuse"), len(members))
            return all(map(_is_local, members)) and all(one["type"] != "Replace" for one in members[fused:])
        case {"type": "Strip", "stop": stop}:
            return bool(stop == 0)
        case {"type": kind}:
            return kind in _LOCAL_DECODERS or kind in ("Fuse", "Replace")
    return False


def _with_word_starts(tokens: Sequence[str], suffix: str) -> list[str]:
    """Mark the first token of each word, where the library marks the last one by a suffix."""
    starts = [True, *(token.endswith(suffix) for token in tokens)]
    return [(SPACE if start else "") + token.removesuffix(suffix) for start, token in zip(starts, tokens, strict=False)]


def _bytes_as_text(token: str) -> str:
    """Return the text of a token whose characters stand for bytes."""
    if not all(character in _BYTES for character in token):
        return token
    return spell_bytes(bytes(_BYTES[character] for character in token))


def _byte_characters() -> dict[str, int]:
    """Return the byte of each character of a byte-level vocabulary (Radford et al., 2019).

    A byte that is a visible character of Latin-1 stands for itself; the others are numbered from U+0100.
    """
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES: Final = _byte_characters()
