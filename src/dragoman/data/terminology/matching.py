"""Terms of a text: longest match over words, in time that does not grow with the number of terms.

The words of all source phrases form a trie. A text is read from left to right: at each word the longest phrase of the
trie counts, and the search continues behind it.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar, final

from dragoman.data.terminology.word_units import Span, find_literals, split_units

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

    Words are those of `word_units`: a part of a word, or of a hyphenated word, is not found. White space between words
    and marks does not count, so that `U.S.` is found in `U. S.`.
    """

    def __init__(self) -> None:
        self._root: _Node[_T] = _Node()

    def add(self, phrase: str, term: _T, *, any_case: bool, is_variant: bool = False) -> None:
        """Add a phrase. A variant has no effect where the phrase itself is one of another term.

        A phrase with a literal is found where a text has the literal as one unit, and where it has its words.
        """
        self._add((), phrase, term, any_case=any_case, is_variant=is_variant)
        if literals := find_literals(phrase):
            self._add(literals, phrase, term, any_case=any_case, is_variant=is_variant)

    def _add(self, literals: Sequence[Span], phrase: str, term: _T, *, any_case: bool, is_variant: bool) -> None:
        units = tuple(unicodedata.normalize("NFC", text) for text, _, _ in split_units(phrase, literals))
        node = self._root
        for unit in units:
            node = node.children.setdefault(fold_case(unit), _Node())
        for entry in node.entries:
            if (entry.any_case and any_case) or (entry.units == units and entry.any_case == any_case):
                if entry.is_variant == is_variant:
                    entry.terms.append(term)
                return
        node.entries.append(_Entry(units, any_case, is_variant, [term]))

    def find(self, text: str, *, literals: Sequence[Span] = ()) -> list[TermMatch[_T]]:
        """Return the phrases of a text from left to right, the longest at each place, without overlaps.

        No phrase is found inside of one of the `literals`.
        """
        units = [(unicodedata.normalize("NFC", unit), start, end) for unit, start, end in split_units(text, literals)]
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


@lru_cache(maxsize=2**16)
def fold_case(unit: str) -> str:
    """Return a unit without the difference of case."""
    return unicodedata.normalize("NFC", unit.casefold())
