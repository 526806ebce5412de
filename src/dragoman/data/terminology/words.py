"""Words of a text and their stems, for scripts that separate words by spaces."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
MIN_STEM = 3
"""Letters that two forms of a word share at least."""
MAX_ENDING = 3
"""Letters that follow the shared letters at most: German `-ern` and `-nen`, French `-ent`."""


@dataclass(frozen=True, slots=True)
class Word:
    """Word or punctuation mark of a text."""

    text: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        """Return whether the text has a letter or digit."""
        return any(map(str.isalnum, self.text))


def split_words(text: str) -> list[Word]:
    """Return the words and punctuation marks of a text, in order; `well-known` is one word."""
    return [Word(found.group(), *found.span()) for found in _WORD.finditer(text)]


@lru_cache(maxsize=2**16)
def fold_word(word: str) -> str:
    """Return a word in lowercase and without diacritics, so that `Häuser` and `Haus` share their letters."""
    decomposed = unicodedata.normalize("NFD", word.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


@lru_cache(maxsize=2**18)
def share_stem(first: str, second: str) -> bool:
    """Return whether two words look like inflections of one word: the same beginning, short endings.

    The shared beginning has `MIN_STEM` letters at least, or all letters of the shorter word, and half of the longer.
    """
    one, other = fold_word(first), fold_word(second)
    if one == other:
        return True
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    longest = max(len(one), len(other))
    return shared >= MIN_STEM and longest - shared <= MAX_ENDING and 2 * shared >= longest


def shares_stems(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two phrases have as many words, and each word of one shares its stem with that of the other."""
    return len(first) == len(second) and all(map(share_stem, first, second))
