"""Decoding of ids to text one id at a time, as a model generates them."""

import codecs
from collections.abc import Sequence
from typing import final

from dragoman.data.tokenizers.normalization import SPACE, TextNormalizer


@final
class StreamingDecoder:
    """Incremental decoder that returns text as soon as it is final.

    The results of `add` and `finish`, joined, equal `LanguageTokenizer.decode` of all ids. An incomplete character
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


def _is_space(character: str) -> bool:
    return character == SPACE or character.isspace()
