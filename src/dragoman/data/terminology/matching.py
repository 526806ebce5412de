"""Terms of a text: longest match over words, in time that does not grow with the number of terms.

The words of all source phrases form a trie. A text is read from left to right: at each word the longest phrase of the
trie counts, and the search continues behind it.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar, final

_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
"""Combining marks of scripts with letters, which `\\w` does not match."""
_INDIC = "\u0900-\u0963\u0966-\u0dff"
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts that do not separate words by spaces."""
_LETTER = rf"(?:[{_INDIC}]|(?![{_UNSPACED}])[\w{_MARKS}])"
_UNIT = re.compile(rf"{_LETTER}+(?:[-\u2010\u2011]{_LETTER}+)*|[^\s]")
_PART = re.compile(r"[^-\u2010\u2011]+|.")
_T = TypeVar("_T")


@final
@dataclass(frozen=True, slots=True)
class TermMatch(Generic[_T]):
    """Term in a text."""

    start: int
    end: int
    text: str
    """The words of the text."""
    terms: tuple[_T, ...]
    """Terms with this source phrase."""
    is_variant: bool = False
    """Whether the text has a regular variant of the source phrase, and not the phrase itself."""


@dataclass(slots=True)
class _Entry(Generic[_T]):
    units: tuple[str, ...]
    """The phrase in its own case."""
    any_case: bool
    is_variant: bool
    terms: list[_T]


@dataclass(slots=True)
class _Node(Generic[_T]):
    children: dict[str, "_Node[_T]"] = field(default_factory=dict)
    entries: list[_Entry[_T]] = field(default_factory=list)


@final
class TermMatcher(Generic[_T]):
    """Finds phrases in texts.

    White space between words and marks does not count, so that `U.S.` is found in `U. S.`; a part of a word, or of a
    hyphenated word, is not found. In scripts without spaces every character is a word.
    """

    def __init__(self, *, split_hyphens: bool = False) -> None:
        """`split_hyphens` says whether a part of a hyphenated word is found, too."""
        self._root: _Node[_T] = _Node()
        self._units = split_parts if split_hyphens else split_units

    def add(self, phrase: str, term: _T, *, any_case: bool, is_variant: bool = False) -> None:
        """Add a phrase. A variant has no effect where the phrase itself is one of another term."""
        units = tuple(unicodedata.normalize("NFC", text) for text, _, _ in self._units(phrase))
        node = self._root
        for unit in units:
            node = node.children.setdefault(fold_case(unit), _Node())
        for entry in node.entries:
            if (entry.any_case and any_case) or (entry.units == units and entry.any_case == any_case):
                if entry.is_variant == is_variant:
                    entry.terms.append(term)
                return
        node.entries.append(_Entry(units, any_case, is_variant, [term]))

    def find(self, text: str) -> list[TermMatch[_T]]:
        """Return the phrases of a text from left to right, the longest at each place, without overlaps."""
        units = [(unicodedata.normalize("NFC", unit), start, end) for unit, start, end in self._units(text)]
        folded = [fold_case(unit) for unit, _, _ in units]
        found, place = [], 0
        while place < len(units):
            match = None
            for stop, node in self._follow(folded, place):
                if entry := _choose(node, [unit for unit, _, _ in units[place:stop]]):
                    match = stop, entry
            if match is None:
                place += 1
                continue
            stop, entry = match
            start, end = units[place][1], units[stop - 1][2]
            found.append(TermMatch(start, end, text[start:end], tuple(entry.terms), entry.is_variant))
            place = stop
        return found

    def _follow(self, folded: list[str], place: int) -> Iterator[tuple[int, _Node[_T]]]:
        """Yield the nodes of the phrases that begin at a place, and the places after them."""
        node = self._root
        for stop in range(place, len(folded)):
            child = node.children.get(folded[stop])
            if child is None:
                return
            node = child
            if node.entries:
                yield stop + 1, node


def _choose(node: _Node[_T], units: list[str]) -> _Entry[_T] | None:
    """Return the entry whose case fits: one with exactly these letters first."""
    for entry in node.entries:
        if list(entry.units) == units:
            return entry
    return next((entry for entry in node.entries if entry.any_case), None)


def split_units(text: str) -> list[tuple[str, int, int]]:
    """Return the words, the other characters and the characters of scripts without spaces, and their places."""
    return [(found.group(), *found.span()) for found in _UNIT.finditer(text)]


def split_parts(text: str) -> list[tuple[str, int, int]]:
    """Return the units of a text, where a hyphen between two letters is a unit, too."""
    return [
        (found.group(), start + found.start(), start + found.end())
        for unit, start, _ in split_units(text)
        for found in _PART.finditer(unit)
    ]


@lru_cache(maxsize=2**16)
def fold_case(unit: str) -> str:
    """Return a unit without the difference of case."""
    return unicodedata.normalize("NFC", unit.casefold())
