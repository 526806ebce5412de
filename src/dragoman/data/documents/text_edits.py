"""Text files whose translations replace parts of the text: everything else keeps its bytes."""

import codecs
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from dragoman.data.documents.document import Unit, UnitTranslation, check_count
from dragoman.errors import DataError, shorten

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Edit(NamedTuple):
    """Replacement of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """Characters of a file and their encoding."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    """Byte order mark."""

    def edit(self, edits: Iterable[Edit]) -> "TextFile":
        """Return the file with edits, which may not overlap; those at one place keep their order."""
        ordered = sorted(edits, key=lambda one: (one.start, one.end))
        if any(one.end > other.start for one, other in pairwise(ordered)):
            raise AssertionError("edits overlap")
        parts, last = [], 0
        for start, end, text in ordered:
            parts += [self.text[last:start], text]
            last = end
        return replace(self, text="".join([*parts, self.text[last:]]))

    def encode(self) -> bytes:
        """Return the bytes of the file. Raises UnicodeEncodeError if its encoding has not all characters."""
        return self.mark + self.text.encode(self.encoding)


Write = Callable[[Sequence[UnitTranslation | None]], Iterable[Edit]]
"""Return the edits that write the translations of an entry, one or more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Units that are written together, such as the plural forms of one message."""

    units: tuple[Unit, ...]
    write: Write


@dataclass(frozen=True)
class EditedDocument:
    """Document that is a text file with entries."""

    format: str
    file: TextFile
    entries: Sequence[Entry]
    finish: Callable[[], Iterable[Edit]] = tuple
    """Return further edits of a file with new translations, such as its language."""
    encode: Callable[[TextFile], bytes] = TextFile.encode

    @property
    def units(self) -> Sequence[Unit]:
        """Texts to translate, in the order of the file."""
        return [unit for entry in self.entries for unit in entry.units]

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the file with a translation for each unit; None keeps what the file has."""
        check_count(translations, self.units)
        edits: list[Edit] = []
        place = 0
        for entry in self.entries:
            some = translations[place : place + len(entry.units)]
            place += len(entry.units)
            if any(one is not None for one in some):
                edits += entry.write(some)
        if edits:
            edits += self.finish()
        return self.encode(self.file.edit(edits))


def single(unit: Unit, write: Callable[[UnitTranslation], Iterable[Edit]]) -> Entry:
    """Return an entry of one unit."""

    def write_first(translations: Sequence[UnitTranslation | None]) -> Iterable[Edit]:
        [translation] = translations
        return () if translation is None else write(translation)

    return Entry((unit,), write_first)


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Edit of one unit. A large file has very many, which take less memory and time than functions."""

    unit: Unit
    start: int
    end: int
    escape: Callable[[str], str]

    def __call__(self, translations: Sequence[UnitTranslation | None]) -> Iterable[Edit]:
        [new] = translations
        if new is None or new.text == self.unit.source:
            return ()
        return (Edit(self.start, self.end, self.escape(new.text)),)


def replaced(unit: Unit, start: int, end: int, escape: Callable[[str], str]) -> Entry:
    """Return an entry of one unit whose translation, escaped, replaces its source from `start` to `end`."""
    return Entry((unit,), _Replacement(unit, start, end, escape))


def added(like: Unit, category: str, place: int, write: Callable[[str], str]) -> Entry:
    """Return an entry of a plural form that the file lacks: the text of the form `other`, `like`, added at a place."""
    key = like.key.removesuffix("other") + category
    unit = replace(like, target="", state="untranslated", key=key, plural=category)
    return single(unit, lambda new: (Edit(place, place, write(new.text)),))


def text_encoding(declared: str, name: str) -> str:
    """Return the codec of an encoding that a file declares. Raises DataError if it is unknown, or none of texts.

    Python also has codecs of domain names, escapes and the like. A declaration that can be read as ASCII is not in
    UTF-16 or UTF-32: a file without a byte order mark is in UTF-8 then.
    """
    try:
        codec = codecs.lookup(declared).name
        if codec.startswith(("utf-16", "utf-32")):
            return "utf-8"
        is_text = all(text.decode(codec) == text.decode("ascii") for text in _ASCII) and len(_ESCAPE.decode(codec)) > 1
    except (LookupError, ValueError):
        is_text = False
    if not is_text:
        raise DataError(
            f"{name}: its encoding {shorten(declared)} is unknown, or no encoding of texts. Save the file as UTF-8."
        )
    return codec


_ASCII = b'<?xml encoding="a-b"?>', b"+AGE-", b"xn--bcher-kva"
"""Texts that are themselves in the encodings of files, but not in EBCDIC, UTF-7, Punycode or IDNA."""
_ESCAPE = rb"\u0041"
"""One character as an escape of Python, several in an encoding; Japanese ones have a yen sign for the backslash."""


def decode_text(content: bytes, name: str, *, encoding: str | None = None, declared: str | None = None) -> TextFile:
    """Return the characters of a file: in the encoding of its byte order mark, or the one given, or UTF-8.

    `declared` is an encoding that the file names. Raises DataError if the bytes are no text.
    """
    mark, found = next(((mark, one) for mark, one in _BYTE_ORDER_MARKS if content.startswith(mark)), (b"", None))
    chosen = found or (text_encoding(declared, name) if declared is not None else encoding or "utf-8")
    try:
        text = content[len(mark) :].decode(chosen)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: is not {chosen.upper()} text (byte {error.start + 1}). Convert the file to UTF-8."
        ) from error
    if "\0" in text:
        raise DataError(f"{name}: contains a null character (character {text.index(chr(0)) + 1}). Copy the file again.")
    return TextFile(text, chosen, mark)


class LineNumbers:
    """Lines, from 1, of the places in a text."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        """Return the line of a place."""
        return bisect_left(self._ends, place) + 1


def line_end(text: str) -> str:
    """Return the line end of a text: that of its first line."""
    found = re.search(r"\r\n|\n|\r", text)
    return found.group() if found else "\n"
