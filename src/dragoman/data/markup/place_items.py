"""Places of tags in a translation, by the alignment of its words."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from dragoman.array_types import Float
from dragoman.data.markup.inline_items import Item, PlacedItem
from dragoman.data.markup.token_alignment import Span

_THRESHOLD: Final = 0.4
"""Weight on the words of an element from which a word of the translation belongs to it."""
_MAX_SHORT: Final = 3
"""Characters of a word that may be an article or a preposition."""


def _words(text: str, atoms: Sequence[Span]) -> list[str]:
    return [text[begin:end].casefold() for begin, end in atoms]


def _align_copies(
    weights: Float[np.ndarray, "targets sources"], source: Sequence[str], target: Sequence[str]
) -> Float[np.ndarray, "targets sources"]:
    """Align words to themselves, such as names and numbers, that stand once in the source and once in the target."""
    counts, target_counts = Counter(source), Counter(target)
    aligned = weights.copy()
    for place, word in enumerate(target):
        is_name = len(word) > _MAX_SHORT or word.isdigit()
        if is_name and counts[word] == target_counts[word] == 1:
            aligned[place] = 0
            aligned[place, source.index(word)] = 1
    return aligned


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
        self._source = source
        self._target = target
        self._weights = _align_copies(weights, _words(text, source), _words(translation, target))
        self.unplaced: list[str] = []
        """Start tags of elements that no word is aligned to."""

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
            spans[item.number] = (begin, end)
            free = [
                part
                for one in free
                for part in ([(one[0], begin), (end, one[1])] if one[0] <= begin and end <= one[1] else [one])
                if part[0] < part[1]
            ]
        gaps = [gap for gap in range(low, high + 1) if not any(begin < gap < end for begin, end in spans.values())]
        placed = []
        for item in items:
            if item.number in spans:
                begin, end = spans[item.number]
            else:
                begin = end = self._best_gap(item, gaps)
                if item.end > item.begin:
                    self.unplaced.append(item.start_tag)
            placed.append(PlacedItem(item, begin, end, tuple(self._place_siblings(item.children, begin, end))))
        # An item without atoms stands before the one that begins at the same atom.
        return sorted(placed, key=lambda one: (one.begin, one.end > one.begin, one.item.number))

    def _belongs(self, item: Item) -> Float[np.ndarray, " targets"]:
        """Return the weight of each atom of the translation on the atoms of an element."""
        return self._weights[:, self._inside(item)].sum(axis=1)

    def _best_span(
        self, item: Item, belongs: Float[np.ndarray, " targets"], free: Sequence[Span]
    ) -> tuple[float, int, int]:
        """Return score and place of the consecutive atoms that belong to an element most."""
        if item.text and (copies := self._copies(item.text, free)):
            return max((float(belongs[begin:end].sum()) + len(belongs), begin, end) for begin, end in copies)
        best = (0.0, 0, 0)
        for low, high in free:
            score, begin = 0.0, low
            for place in range(low, high):
                score += float(belongs[place]) - _THRESHOLD
                if score <= 0:
                    score, begin = 0.0, place + 1
                elif score > best[0]:
                    best = (score, begin, place + 1)
        return self._trim(item, best)

    def _trim(self, item: Item, found: tuple[float, int, int]) -> tuple[float, int, int]:
        """Drop short words and punctuation marks from both ends that are not the best of any word of the element.

        These are articles and prepositions that the source does not have: attention gives them to the next word.
        """
        score, begin, end = found
        inside = self._inside(item)
        if begin == end or not inside:
            return found
        weights = self._weights[begin:end, inside]
        kept = {begin + row for row in (weights >= weights.max(axis=0)).any(axis=1).nonzero()[0].tolist()}
        while begin not in kept and self._is_short(begin):
            begin += 1
        while end - 1 not in kept and self._is_short(end - 1):
            end -= 1
        return score, begin, end

    def _is_short(self, place: int) -> bool:
        begin, end = self._target[place]
        return end - begin <= _MAX_SHORT

    def _inside(self, item: Item) -> list[int]:
        """Return the atoms of the source in an element."""
        return [place for place, (begin, end) in enumerate(self._source) if item.begin <= begin and end <= item.end]

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
        before = sum(end <= item.begin for _, end in self._source)
        count = len(self._target)
        is_before = self._weights[:, :before].sum(axis=1)
        is_after = self._weights[:, before:].sum(axis=1)
        order = np.concatenate([[0.0], np.cumsum(is_before - is_after)]) / max(1, count)
        near = np.zeros(count + 1)
        if before > 0:
            near[1:] += self._weights[:, before - 1]
        if before < len(self._source):
            near[:-1] += self._weights[:, before]
        scores = near + order
        return max(gaps, key=lambda gap: (scores[gap], -gap))


def scale_items(items: Sequence[Item], source: Sequence[Span], count: int) -> list[PlacedItem]:
    """Return items in the same proportions of a translation with `count` atoms; none replaces its words."""
    ends = [end for _, end in source]

    def scale(place: int) -> int:
        return bisect_right(ends, place) * count // max(1, len(ends))

    return [
        PlacedItem(
            item,
            scale(item.begin),
            scale(item.begin if item.end_tag is None else item.end),
            tuple(scale_items(item.children, source, count)),
        )
        for item in items
    ]
