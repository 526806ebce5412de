"""Places of tags in a translation, by the alignment of its words."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from typing import Final

import numpy as np

from dragoman.array_types import Float
from dragoman.data.markup.inline_items import Item, PlacedItem
from dragoman.data.markup.token_alignment import find_atoms
from dragoman.data.text_places import Span

_MIN_COPY: Final = 0.1
"""Weight on the words of an untranslated element below which the same words of a translation are not those of it."""
_THRESHOLD: Final = 0.4
"""Weight on the words of an element from which a word of the translation belongs to it."""
_MIN_CLAIM: Final = 0.2
"""Weight on the words of an element from which it has a word that no other element of its parent needs."""
_HYPHENS: Final = ("-", "\u2010", "\u2011")
_MAX_SHORT: Final = 3
"""Characters of a word that may be an article or a preposition."""


class Placer:
    """Places items at the atoms of one translation."""

    def __init__(
        self,
        text: str,
        translation: str,
        source: Sequence[Span],
        target: Sequence[Span],
        weights: Float[np.ndarray, "targets sources"],
    ) -> None:
        self._text = text
        self._translation = translation
        self._begins, self._ends = [begin for begin, _ in source], [end for _, end in source]
        """Where the atoms of the source begin and end."""
        self._source = source
        self._words = _whole_words(text, source)
        """Words that the atoms of the source are parts of."""
        self._target = target
        self._weights = weights

    def place(self, items: Sequence[Item]) -> list[PlacedItem]:
        """Return the places of items anywhere in the translation."""
        return self._place_siblings(items, 0, len(self._target))

    def _place_siblings(self, items: Sequence[Item], low: int, high: int) -> list[PlacedItem]:
        """Place items inside of their parent, from atom `low` to `high`, in the order of the translation."""
        spans: dict[int, Span] = {}
        free = [(low, high)]
        wide = [item for item in items if item.end > item.begin]
        belongs = {item.number: self._belongs(item) for item in wide}
        for item in sorted(wide, key=lambda one: -self._best_span(one, belongs[one.number], free)[0]):
            score, begin, end = self._best_span(item, belongs[item.number], free)
            if score <= 0:
                continue
            begin, end = spans[item.number] = self._with_compounds(item, (begin, end), free)
            free = _without(free, (begin, end))
        for item in wide:
            if item.number not in spans and (atom := self._claim(item, wide, spans, free)) is not None:
                spans[item.number] = atom
                free = _without(free, atom)
        inner = {gap for begin, end in spans.values() for gap in range(begin + 1, end)}
        gaps = [gap for gap in range(low, high + 1) if gap not in inner]
        placed = []
        for item in items:
            if item.number in spans:
                begin, end = spans[item.number]
            else:
                begin = end = self._best_gap(item, gaps)
            placed.append(PlacedItem(item, begin, end, tuple(self._place_siblings(item.children, begin, end))))
        # An item without atoms stands before the one that begins at the same atom.
        return sorted(placed, key=lambda one: (one.begin, one.end > one.begin, one.item.number))

    def _claim(self, item: Item, siblings: Sequence[Item], spans: dict[int, Span], free: Sequence[Span]) -> Span | None:
        """Return the atom that the words of an element without a span are aligned to most, also those cut by its tags.

        It may be the first or last atom of a sibling with more than one, which becomes shorter.
        """
        inside = [
            place
            for place, (begin, end) in enumerate(self._words)
            if begin < item.end and end > item.begin and self._text[begin].isalnum()
        ]
        weights = self._weights[:, inside].sum(axis=1)
        if weights.max(initial=0) < _MIN_CLAIM:
            return None
        owners = {spans[one.number]: one.number for one in siblings if one.number in spans}
        edges = {edge: owner for owner in owners for edge in (owner[0], owner[1] - 1) if owner[1] - owner[0] > 1}
        allowed = [place for low, high in free for place in range(low, high)] + list(edges)
        allowed = [place for place in allowed if self._is_word(place)]
        best = max(allowed, key=lambda place: weights[place], default=-1)
        if best < 0 or weights[best] < max(_MIN_CLAIM, float(self._weights[best].max(initial=0)) / 2):
            return None
        if best in edges:
            begin, end = edges[best]
            spans[owners[begin, end]] = (begin + 1, end) if best == begin else (begin, end - 1)
        return best, best + 1

    def _belongs(self, item: Item) -> Float[np.ndarray, " targets"]:
        """Return the weight of each atom of the translation on the atoms of an element."""
        return self._weights[:, self._inside(item)].sum(axis=1)

    def _best_span(
        self, item: Item, belongs: Float[np.ndarray, " targets"], free: Sequence[Span]
    ) -> tuple[float, int, int]:
        """Return score and place of the consecutive atoms that belong to an element most."""
        aligned = self._aligned_span(item, belongs, free)
        if item.text and (copies := self._copies(item.text, free)):
            score, begin, end = max((float(belongs[begin:end].sum()), begin, end) for begin, end in copies)
            if score >= _MIN_COPY or aligned[0] <= 0:  # otherwise, these are other words, as `main` in `main.rs`
                return score + len(belongs), begin, end
        return aligned

    def _aligned_span(
        self, item: Item, belongs: Float[np.ndarray, " targets"], free: Sequence[Span]
    ) -> tuple[float, int, int]:
        best = (0.0, 0, 0)
        end = 0
        for begin in np.flatnonzero(belongs > _THRESHOLD).tolist():
            number = _range_of(free, begin)
            if begin < end or number < 0:
                continue
            score, end = float(belongs[begin]) - _THRESHOLD, begin + 1
            while score > 0:
                best = max(best, (score, begin, end), key=itemgetter(0))
                if end == free[number][1]:
                    break
                score, end = score + (float(belongs[end]) - _THRESHOLD), end + 1
        return self._trim(item, best)

    def _trim(self, item: Item, found: tuple[float, int, int]) -> tuple[float, int, int]:
        """Drop short words and punctuation marks from both ends that are not the best of any word of the element.

        These are articles and prepositions that the source does not have: attention gives them to the next word.
        Words have no punctuation marks at their ends where the element has none in the source.
        """
        score, begin, end = found
        inside = self._inside(item)
        if begin == end or not inside:
            return found
        weights = self._weights[begin:end, inside]
        kept = {begin + row for row in (weights >= weights.max(axis=0)).any(axis=1).nonzero()[0].tolist()}
        if all(self._text[self._source[place][0]].isalnum() for place in inside):
            kept = {place for place in kept if self._is_word(place)}
        while begin < end and begin not in kept and self._is_short(begin):
            begin += 1
        while begin < end and end - 1 not in kept and self._is_short(end - 1):
            end -= 1
        return (score, begin, end) if begin < end else (0.0, 0, 0)

    def _with_compounds(self, item: Item, span: Span, free: Sequence[Span]) -> Span:
        """Return a span with all of the compounds at its ends, such as e-mail, unless a tag cuts the compound."""
        begin, end = span
        low, high = free[_range_of(free, begin)]
        if not self._text[: item.begin].endswith(_HYPHENS):
            while begin - 2 >= low and self._is_compound(begin - 1):
                begin -= 2
        if not self._text.startswith(_HYPHENS, item.end):
            while end + 2 <= high and self._is_compound(end):
                end += 2
        return begin, end

    def _is_compound(self, place: int) -> bool:
        """Return whether an atom is a hyphen between two words."""
        begin, end = self._target[place]
        is_inside = self._target[place - 1][1] == begin and self._target[place + 1][0] == end
        is_hyphen = self._translation[begin:end] in _HYPHENS
        return is_inside and is_hyphen and self._is_word(place - 1) and self._is_word(place + 1)

    def _is_short(self, place: int) -> bool:
        begin, end = self._target[place]
        return end - begin <= _MAX_SHORT

    def _is_word(self, place: int) -> bool:
        return self._translation[self._target[place][0]].isalnum()

    def _inside(self, item: Item) -> list[int]:
        """Return the atoms of the source in an element."""
        return list(range(bisect_left(self._begins, item.begin), bisect_right(self._ends, item.end)))

    def _copies(self, text: str, free: Sequence[Span]) -> list[Span]:
        """Return the atoms that the text of an untranslated element is copied to."""
        starts = {begin: place for place, (begin, _) in enumerate(self._target)}
        ends = {end: place + 1 for place, (_, end) in enumerate(self._target)}
        found = []
        for match in re.finditer(re.escape(text), self._translation, re.I):
            begin, end = starts.get(match.start()), ends.get(match.end())
            if begin is not None and end is not None and any(low <= begin and end <= high for low, high in free):
                found.append((begin, end))
        return found

    def _best_gap(self, item: Item, gaps: Sequence[int]) -> int:
        """Return the atom before which an item without atoms stands.

        Its neighbors in the source are its neighbors there, if possible, and otherwise most of the words aligned to
        those before it are before it, and of those aligned to words after it after it.
        """
        if item.is_visible and item.sides[0] == (False, False):  # a line break, or an element of white space
            gaps = [gap for gap in gaps if self._is_between_words(gap)] or gaps
        before = bisect_right(self._ends, item.begin)
        count = len(self._target)
        is_before = self._sums[:, before]
        is_after = self._sums[:, -1] - is_before
        order = np.concatenate([[0.0], np.cumsum(is_before - is_after)]) / max(1, count)
        near = np.zeros(count + 1)
        if before > 0:
            near[1:] += self._weights[:, before - 1]
        if before < len(self._source):
            near[:-1] += self._weights[:, before]
        scores = near + order
        return max(gaps, key=lambda gap: (scores[gap], -gap))

    @cached_property
    def _sums(self) -> Float[np.ndarray, "targets places"]:
        """Weight of each atom of the translation on all atoms of the source before each place."""
        return np.pad(self._weights.cumsum(axis=1), ((0, 0), (1, 0)))

    def _is_between_words(self, gap: int) -> bool:
        """Return whether white space stands before an atom, or nothing before or after it."""
        return not 0 < gap < len(self._target) or self._target[gap - 1][1] < self._target[gap][0]


def _without(free: Sequence[Span], span: Span) -> list[Span]:
    """Return the free atoms without a span."""
    number = _range_of(free, span[0])
    if number < 0 or span[1] > free[number][1]:
        return list(free)
    low, high = free[number]
    parts = [part for part in ((low, span[0]), (span[1], high)) if part[0] < part[1]]
    return [*free[:number], *parts, *free[number + 1 :]]


def _range_of(free: Sequence[Span], place: int) -> int:
    """Return the index of the free atoms that have an atom; -1 if it is not free."""
    number = bisect_right(free, place, key=itemgetter(0)) - 1
    return number if number >= 0 and place < free[number][1] else -1


def _whole_words(text: str, atoms: Sequence[Span]) -> list[Span]:
    """Return the word around each atom."""
    words = find_atoms(text)
    starts = [begin for begin, _ in words]
    return [words[bisect_right(starts, begin) - 1] for begin, _ in atoms]


def scale_items(items: Sequence[Item], source: Sequence[Span], count: int) -> list[PlacedItem]:
    """Return items in the same proportions of a translation with `count` atoms; none replaces its words."""
    ends = [end for _, end in source]

    def scale(place: int) -> int:
        return bisect_right(ends, place) * count // max(1, len(ends))

    def scaled(item: Item) -> PlacedItem:
        end = scale(item.begin if item.end_tag is None else item.end)
        return PlacedItem(item, scale(item.begin), end, tuple(map(scaled, item.children)))

    return list(map(scaled, items))
