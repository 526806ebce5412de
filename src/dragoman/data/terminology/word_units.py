"""Definition of a word: the units of a text that terms and the forms of constraints are compared by.

A word is a run of letters, digits and underscores, and words joined by hyphens are one word: `light` is no word of
`light-blue`. An apostrophe and every other mark separate words: `l'eau` has the word `eau`. In scripts without spaces
every character is a word. A literal, such as a path, URL, option or identifier, is one unit.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from dragoman.data.placeholders.recognition import PlaceholderKind, find_placeholders

_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
)
"""Combining marks of scripts with letters, which `\\w` does not match."""
_INDIC: Final = "\u0900-\u0963\u0966-\u0dff"
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts that do not separate words by spaces."""
_LETTER: Final = rf"(?:[{_INDIC}]|(?![{_UNSPACED}])[\w{_MARKS}])"
HYPHENS: Final = "-\u2010\u2011"
"""Characters that join two words to one."""
_UNIT: Final = re.compile(rf"{_LETTER}++(?:[{HYPHENS}]{_LETTER}++)*+|[^\s]")
_WORD_CHARACTER: Final = re.compile(_LETTER)
_NO_LITERALS: Final = frozenset[PlaceholderKind]({"key", "emoji", "unreadable"})
"""Placeholders that may be terms, or parts of terms: `Ctrl` is `Strg` in German."""
_IDENTIFIER: Final = re.compile(
    r"(?<![\w.@/-])[a-z_][\w-]++(?:\.[a-z_][\w-]++)++(?:/[\w./~%+-]*+)?+"  # `example.com/file`, and not `a.m.`
    r"|(?<![\w.])[A-Za-z_]\w++(?:\.[A-Za-z_]\w++){2,}+"  # `System.IO.File`
    r"|(?<!\w)\w++(?:(?:::|->)\w++)++"
    r"|(?<![\w&])#[A-Za-z]\w*+"
    r"|(?<!\S)-[a-z][\w-]++"  # option
)
_LITERAL_MARKS: Final = re.compile(r"[\\/@{}<>$%#&`~:=_|\[\]*+!]|(?<!\w)-\w|\w[.]\w")
"""Characters of which every literal has one."""

Unit = tuple[str, int, int]
"""Text of a unit, its first character, and the one after the last."""
Span = tuple[int, int]


def find_literals(text: str) -> list[Span]:
    """Return the places of the paths, URLs, options, e-mail addresses, identifiers and placeholders of a text."""
    if _LITERAL_MARKS.search(text) is None:
        return []
    spans = [(one.start, one.end) for one in find_placeholders(text) if one.kind not in _NO_LITERALS]
    spans += [match.span() for match in _IDENTIFIER.finditer(text)]
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def literal_texts(text: str) -> tuple[str, ...]:
    """Return the literals of a text, each once, which a translation of it repeats."""
    return tuple(dict.fromkeys(text[start:end] for start, end in find_literals(text)))


def find_copies(text: str, literals: Collection[str]) -> list[Span]:
    """Return the places of the literals of a text that are among those of another one."""
    if not literals:
        return []
    known = frozenset(literals)
    return [(start, end) for start, end in find_literals(text) if text[start:end] in known]


def split_units(text: str, literals: Sequence[Span] = ()) -> list[Unit]:
    """Return the words, the other characters and the literals of a text, and their places, in order."""
    if not literals:
        return [(match.group(), *match.span()) for match in _UNIT.finditer(text)]
    units: list[Unit] = []
    for (_, before), (start, end) in pairwise([(0, 0), *literals, (len(text), len(text))]):
        units += [(match.group(), *match.span()) for match in _UNIT.finditer(text, before, start)]
        if start < end:
            units.append((text[start:end], start, end))
    return units


def is_inside_word(character: str) -> bool:
    """Return whether a character continues the word before it."""
    return _WORD_CHARACTER.match(character) is not None


def has_words(text: str) -> bool:
    """Return whether a text has a letter or digit; symbols alone are no words."""
    return any(unicodedata.category(character)[0] in "LN" for character in text)
