"""Keyboard accelerators of menus and buttons: `_File`, `&File`, `Save &As…`.

The mark before a letter splits words, so that a model reads the text without it. The translation gets it before the
same letter, before its first letter, or, in scripts without letters on keys, in parentheses at its end, as programs
for GTK and Windows do: `ファイル(_F)`.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.data.placeholders.rules import Accelerator

MAX_LENGTH: Final = 80
"""Characters of the longest text with an accelerator; longer ones are prose."""
MIN_TEXTS: Final[dict[Accelerator, int]] = {"_": 2, "&": 1}
"""Texts with a mark at the beginning of a word, from which all texts of a file are read so: `_name` may be a name."""
_IDEOGRAPHIC: Final = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR")
"""Beginnings of names of characters in scripts whose letters are on no key, or are no letters."""
_END: Final = re.compile(r"[\s.…:：。?!]*+")
"""Marks at the end of a text, from the last character to the first."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Text without its accelerator, and the letter that has it."""

    text: str
    mark: Accelerator
    letter: str

    def restore(self, translation: str) -> str:
        """Return a translation with the accelerator."""
        place = _find_letter(translation, self.letter)
        if place is None:
            marks = _END.match(translation[::-1])
            assert marks is not None  # it matches an empty end
            end = len(translation) - marks.end()
            return f"{translation[:end]}({self.mark}{self.letter.upper()}){translation[end:]}"
        return translation[:place] + self.mark + translation[place:]


def remove_accelerator(text: str, mark: Accelerator) -> MarkedText | None:
    """Return a text without its accelerator; None if it has none, or several marks."""
    if text.count(mark) != 1 or len(text) > MAX_LENGTH:
        return None
    place = text.index(mark)
    letter = text[place + 1 : place + 2]
    if not letter.isalnum():
        return None
    around = next((one for one in find_placeholders(text) if one.start <= place < one.end), None)
    if around is not None and not re.fullmatch(rf"[^\W\d_]+{mark}[^\W\d_]+", around.text):  # `E_xit` is a word
        return None
    if mark == "&" and (text[place - 1 : place].isupper() or re.match(r"&#?\w+;", text[place:])):  # `R&D`, an entity
        return None
    return MarkedText(text[:place] + text[place + 1 :], mark, letter)


def recognize_accelerator(texts: Iterable[str]) -> Accelerator | None:
    """Return the mark of the accelerators of the texts of a file; None if too few have one before a word."""
    counts: dict[Accelerator, int] = {"_": 0, "&": 0}
    for text in texts:
        for mark in counts:
            found = remove_accelerator(text, mark)
            if found is not None and re.search(rf"(?<!\S){mark}[^\W\d_]", text) and "__" not in text:
                counts[mark] += 1
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] >= MIN_TEXTS[best] else None


def _find_letter(text: str, letter: str) -> int | None:
    """Return the place of a letter in a translation, outside of its placeholders; None if the script has none."""
    free = set(range(len(text)))
    for one in find_placeholders(text):
        free -= set(range(one.start, one.end))
    same = [place for place in sorted(free) if text[place].casefold() == letter.casefold()]
    starts = [place for place in same if place == 0 or not text[place - 1].isalnum()]
    letters = [place for place in sorted(free) if text[place].isalnum() and not _is_ideographic(text[place])]
    return next(iter([*starts, *same, *letters]), None)


def _is_ideographic(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_IDEOGRAPHIC)
