"""Translations with their tags, and white space around the tags as in the source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import final

from dragoman.data.markup.inline_items import PlacedItem, Sides
from dragoman.data.markup.tags import encode_text
from dragoman.data.text_places import Span

_CLOSING = frozenset(".,;:!?)]}»”’%…。，、；：！？）")
"""Punctuation marks that no space stands before."""
_NO_SIDES = Sides(None, None)


@final
@dataclass(frozen=True, slots=True)
class _Piece:
    """Part of the output: a word, a tag around words, or an element that takes the place of a word."""

    source: str
    sides: Sides = _NO_SIDES
    is_start: bool = False
    atoms: Span | None = None
    """Atoms of a word; None of others."""
    is_visible: bool = True
    """Whether it separates words, unlike tags around words."""


class Filler:
    """Writes a translation with placed items."""

    def __init__(self, translation: str, atoms: Sequence[Span]) -> None:
        self._translation = translation
        self._atoms = atoms

    def fill(self, placed: Sequence[PlacedItem]) -> str:
        """Return the translation as markup."""
        pieces = list(self._pieces(placed, 0, len(self._atoms)))
        visible = [place for place, piece in enumerate(pieces) if piece.is_visible]
        found, end = [], 0
        for place, following in zip_longest(visible, visible[1:]):
            found += [piece.source for piece in pieces[end : place + 1]]
            end = place + 1
            if following is not None:
                tags = pieces[end:following]
                space = self._space(pieces[place], pieces[following])
                slot = _space_slot(tags) if space else 0
                found += [*(tag.source for tag in tags[:slot]), space, *(tag.source for tag in tags[slot:])]
                end = following
        return "".join([*found, *(piece.source for piece in pieces[end:])])

    def _pieces(self, placed: Sequence[PlacedItem], low: int, high: int) -> Iterator[_Piece]:
        """Yield the pieces of the atoms from `low` to `high`."""
        for one in placed:
            yield from self._words(low, one.begin)
            item, low = one.item, one.end
            if item.end_tag is None:
                atoms = (one.begin, one.end) if one.end > one.begin else None
                yield _Piece(item.start_tag, item.sides[0], atoms=atoms, is_visible=item.is_visible)
                continue
            yield _Piece(item.start_tag, item.sides[0], is_start=True, is_visible=False)
            yield from self._pieces(one.children, one.begin, one.end)
            yield _Piece(item.end_tag, item.sides[1], is_visible=False)
        yield from self._words(low, high)

    def _words(self, low: int, high: int) -> Iterator[_Piece]:
        for place in range(low, high):
            begin, end = self._atoms[place]
            yield _Piece(encode_text(self._translation[begin:end]), atoms=(place, place + 1))

    def _space(self, one: _Piece, other: _Piece) -> str:
        """Return the white space between two pieces."""
        if one.atoms is not None and other.atoms is not None:
            return self._translation[self._atoms[one.atoms[1] - 1][1] : self._atoms[other.atoms[0]][0]]
        wishes = {one.sides.right if one.atoms is None else None, other.sides.left if other.atoms is None else None}
        if self._is_joined(one, other):
            return ""
        if True in wishes:
            return " "
        return "" if False in wishes else self._space_at(one, other)

    def _is_joined(self, one: _Piece, other: _Piece) -> bool:
        """Return whether no white space stands between a word and a visible element, whatever the source has there.

        Elements join closing marks, and marks that they joined in the source. Marks that joined one word in the source
        do not divide what the translation writes together.
        """
        if other.atoms is not None:
            mark = other.source[:1]
            if mark in _CLOSING or (one.sides == (True, None) and not mark.isalnum()):
                return True
            return one.sides == (False, True) and not self._space_at(one, other)
        if one.atoms is None:
            return False
        if other.sides.left is None and self._translation[self._atoms[one.atoms[1] - 1][1] - 1] in _CLOSING:
            return True
        return other.sides == (True, False) and not self._space_at(one, other)

    def _space_at(self, one: _Piece, other: _Piece) -> str:
        """Return the white space of the translation before or after an element that takes the place of a word."""
        place = one.atoms[1] if one.atoms is not None else other.atoms[0] if other.atoms is not None else 0
        if not 0 < place < len(self._atoms):
            return ""
        return self._translation[self._atoms[place - 1][1] : self._atoms[place][0]]


def _space_slot(tags: Sequence[_Piece]) -> int:
    """Return how many tags stand before the white space: it is where it was in the source, or outside of elements."""
    for slot in range(len(tags) + 1):
        if (slot > 0 and tags[slot - 1].sides.right) or (slot < len(tags) and tags[slot].sides.left):
            return slot
    return next((slot for slot, tag in enumerate(tags) if tag.is_start), len(tags))
