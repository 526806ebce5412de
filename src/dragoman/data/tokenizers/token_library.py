"""Interface of a tokenizer of another library, with the ids of its own vocabulary."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.offsets import Span
from dragoman.errors import DataError, shorten_text

MAX_VOCAB = 1_000_000
"""Maximum number of tokens, which take 300 MB of memory."""


class TokenLibrary(Protocol):
    """Tokenizer of another library: text to foreign ids and back, without the symbols around a text."""

    tokens: tuple[str, ...]
    """Token of each foreign id, as the library spells it."""
    hidden: frozenset[int]
    """Foreign ids that write nothing into a text, such as those of languages."""
    control_tokens: frozenset[str]
    """Texts that are read as special symbols."""
    unit: Literal["character", "word"]
    """Smallest part of a text that is in the vocabulary or not."""
    byte_ids: tuple[int, ...]
    """Foreign ids of the tokens that spell one byte of a character."""
    is_streamable: bool
    """Whether later tokens cannot change the text of complete characters."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the foreign ids of texts, which hold no lone surrogates; -1 for a token without an id."""

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the foreign ids of a text, and the span of each; white space may be part of it."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of foreign ids."""

    def readable(self, ids: Sequence[int]) -> list[str]:
        """Return readable tokens of foreign ids: `▁` for a space before a word, `<0xC3>` for a part of a character."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON tree that the library is built from."""


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Turn the errors of a library, panics included, into a DataError that begins with `what`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, DataError):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        raise DataError(f"{what} ({first_line(error)}). Use the tokenizer file of the original model.") from error


def first_line(error: BaseException) -> str:
    """Return the first line of a message, shortened."""
    text = str(error).strip()
    return shorten_text(text.splitlines()[0], 200) if text else type(error).__name__


def spell_bytes(content: bytes) -> str:
    """Return bytes as a readable token: text where they are UTF-8, `▁` for spaces, `<0xC3>` for other bytes."""
    try:
        return content.decode().replace(" ", SPACE)
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in content)


def check_size(size: int) -> None:
    """Raise DataError for a vocabulary that is too large."""
    if size > MAX_VOCAB:
        raise DataError(f"The vocabulary has {size:,} tokens. Use a tokenizer of at most {MAX_VOCAB:,} tokens.")
