"""Typography and capitals of translations: those of the source, where the model reads and writes plain text only.

A model without curly quotation marks, dashes and the ellipsis reads and writes their plain equivalents; each segment of
a translation gets those of its source back.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, final

from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.label_text import restore_label
from dragoman.data.tokenizers.readable_text import DASHES, DOUBLE_QUOTES, SINGLE_QUOTES, ReadableTokenizer

_APOSTROPHE: Final = rf"(?<=[^\W\d_])['{SINGLE_QUOTES}](?=[^\W\d_])"
_QUOTE: Final = re.compile(rf"[\"{DOUBLE_QUOTES}]|(?!{_APOSTROPHE})['{SINGLE_QUOTES}]")
_SPACED_DASH: Final = re.compile(rf"(?<!\S)(?:--?|[{DASHES}])(?!\S)|(?<=\w)[—―⸺](?=\w)")
_TIGHT_DASH: Final = re.compile(rf"(?<!\w)\w{{1,40}}[-{DASHES}]\w{{1,40}}(?!\w)")
_ELLIPSIS: Final = re.compile(r"\.{3}|…")
_PARTNERS: Final = {"“": "”", "„": "“", "‘": "’", "‚": "‘", "«": "»", "‹": "›", "”": "”", "’": "’", "»": "«", "›": "‹"}


@final
class Typography:
    """Tokenizer that reads typographic characters, and puts them back into translations."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Find out which characters the vocabularies lack."""
        source = ReadableTokenizer(tokenizer.source, labels=True)
        sides = [ReadableTokenizer(tokenizer.target, labels=labels) for labels in (False, True)]
        self.tokenizer, self.aligned = (
            Tokenizer(source, target, tokenizer.config, tokenizer.prefixes) for target in sides
        )
        """Tokenizers of the texts of requests, and of pairs of texts whose words are aligned."""
        self._can_write = lru_cache(maxsize=None)(sides[0].can_write)

    def restore(self, source: str, translation: str) -> str:
        """Return a translation of a segment with the typography of its source."""
        if not translation:
            return translation
        if not source.isascii():
            for restore in (self._ellipses, self._apostrophes, self._quotes, self._dashes, self._tight_dashes):
                translation = restore(source, translation)
        return restore_label(source, translation)

    def _lacks(self, character: str) -> bool:
        return not character.isascii() and not self._can_write(character)

    def _ellipses(self, source: str, translation: str) -> str:
        marks = _ELLIPSIS.findall(source)
        return self._in_order(_ELLIPSIS, marks, translation) if "…" in marks else translation

    def _apostrophes(self, source: str, translation: str) -> str:
        marks = set(re.findall(_APOSTROPHE, source))
        if len(marks) != 1 or not self._lacks(mark := marks.pop()):
            return translation
        return re.sub(r"(?<=[^\W\d_])'(?=[^\W\d_])", mark, translation)

    def _quotes(self, source: str, translation: str) -> str:
        marks = _QUOTE.findall(source)
        if not any(map(self._lacks, marks)):
            return translation
        if len(marks) == len(_QUOTE.findall(translation)):
            return self._in_order(_QUOTE, marks, translation)
        opening = next((mark for mark in marks if self._lacks(mark)), "")
        if any(mark in "\"'" for mark in marks):
            return translation  # no telling which ones are typographic
        return _QUOTE.sub(lambda found: _paired(found, translation, opening), translation)

    def _dashes(self, source: str, translation: str) -> str:
        marks = _SPACED_DASH.findall(source)
        if not any(map(self._lacks, marks)):
            return translation
        translation = re.sub(r"(?<!\S)-(?: -)++(?!\S)", "-", translation)
        joined = [found.group() for found in re.finditer(r"(?<=\w)[—―⸺](?=\w)", source)]
        translation = self._in_order(_SPACED_DASH, marks, translation)
        return re.sub(rf" ([{DASHES}]) ", r"\1", translation) if len(joined) == len(marks) else translation

    def _tight_dashes(self, source: str, translation: str) -> str:
        """Put dashes back between the same numbers or words, such as 10–20."""
        typographic = {
            re.sub(rf"[{DASHES}]", "-", found.group()): found.group()
            for found in _TIGHT_DASH.finditer(source)
            if any(self._lacks(character) for character in found.group() if character in DASHES)
        }
        return _TIGHT_DASH.sub(lambda found: typographic.get(found.group(), found.group()), translation)

    def _in_order(self, pattern: re.Pattern[str], marks: Sequence[str], translation: str) -> str:
        """Replace plain marks of a translation by those of the source: in order, or all if all of them are equal."""
        places = list(pattern.finditer(translation))
        if len(places) != len(marks):
            marks = [marks[0]] * len(places) if len(set(marks)) == 1 else [found.group() for found in places]
        pieces, end = [], 0
        for found, mark in zip(places, marks, strict=True):
            is_plain = found.group().isascii() and self._lacks(mark)
            pieces += [translation[end : found.start()], mark if is_plain else found.group()]
            end = found.end()
        return "".join([*pieces, translation[end:]])


def _paired(found: re.Match[str], text: str, opening: str) -> str:
    """Return an opening or closing mark in place of a straight one, by the white space before it."""
    if found.group() not in "\"'":
        return found.group()
    before = text[: found.start()][-1:]
    is_opening = not before or before.isspace() or before in "([{-—–"
    return opening if is_opening else _PARTNERS.get(opening, opening)
