"""Writing systems of letters, and lengths of texts that are comparable between them."""

import unicodedata
from collections import Counter
from functools import lru_cache

_JOINED = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK", "HANGUL": "CJK", "BOPOMOFO": "CJK"}
"""Writing systems that stand in one text with Chinese characters."""
_WEIGHTS = {"CJK": 2.5}
"""Letters of an alphabet that say as much as one character of a writing system, about."""


@lru_cache(maxsize=65_536)
def script_of(character: str) -> str:
    """Return the writing system of a letter, such as `LATIN`; an empty text for all other characters.

    Chinese, Japanese and Korean characters have the same, `CJK`.
    """
    if not character.isalpha():
        return ""
    name = unicodedata.name(character, "").split(" ", 1)[0]
    return _JOINED.get(name, name)


def count_scripts(text: str) -> Counter[str]:
    """Count the letters of each writing system.

    >>> count_scripts("Größe μm 3")["LATIN"]
    6
    """
    return Counter(script for character in text if (script := script_of(character)))


def comparable_length(text: str) -> float:
    """Return the number of letters and digits, those of dense writing systems counted more than once."""
    return sum(_WEIGHTS.get(script_of(character), 1.0) for character in text if character.isalnum())
