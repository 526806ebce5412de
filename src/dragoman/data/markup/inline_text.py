"""Inline markup of a text: tags are taken out, so that a model reads words only, and placed in the translation.

Bergamot's engine copies the tags of each source word to the words aligned to it, so that an element may become several.
Here each element stays one span, since the elements of XLIFF may not be repeated: the span of the translation that the
weights of the alignment support most, inside of the span of its parent.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from dragoman.data.markup.copied_words import align_copies, cut_copies, find_copies
from dragoman.data.markup.elements import Part, pair_tags
from dragoman.data.markup.fill_tags import Filler
from dragoman.data.markup.inline_items import Item, PlacedItem, Sides
from dragoman.data.markup.place_items import Placer, scale_items
from dragoman.data.markup.tags import MarkupRules, encode_text
from dragoman.data.markup.token_alignment import TokenAlignment, find_atoms
from dragoman.data.text_places import KeptPart

_MAX_KEPT_TEXT = 80
"""Characters of the text of an untranslated element that the model reads, so that its place is aligned."""

_SPACE = re.compile(r"(?:\s|&nbsp;|&#160;|&#x0*+a0;)*+", re.I)
_REVERSED_SPACE = re.compile(r"(?:\s|;psbn&|;061#&|;0a0*+x#&)*+", re.I)
"""White space of HTML at the end of a text, from the last character to the first."""


@final
@dataclass(frozen=True, slots=True)
class PlacedText:
    """Translation with its tags."""

    content: str
    unplaced: tuple[str, ...]
    """Start tags of elements that no word of the translation is aligned to: their places are guesses."""


@final
@dataclass(frozen=True, slots=True)
class InlineText:
    """Text without its tags."""

    text: str
    """Text for a model, without character references."""
    problems: tuple[str, ...]
    """Tags without a partner, which are placed one by one."""
    fragment: str
    begin: str
    """Markup before the text, and around it."""
    end: str
    items: tuple[Item, ...]

    @property
    def cuts(self) -> list[int]:
        """The characters of the text where its items begin and end, in order."""
        return sorted({cut for item in self.items for cut in item.cuts})

    def place(self, translation: str, alignment: TokenAlignment | None, kept: Sequence[KeptPart] = ()) -> PlacedText:
        """Return the translation with all tags, each element as one span and nested as in the source.

        The translation has no tags and no character references. A translation that equals the text has the fragment,
        byte for byte. Without an alignment, all places are in proportion to the length of the text. No tag stands
        inside of a part that is `kept`, unless one did in the text.
        """
        if translation == self.text:
            return PlacedText(self.fragment, ())
        if not self.items:
            return PlacedText(f"{self.begin}{encode_text(translation)}{self.end}", ())
        cuts, whole = self.cuts, [part.target for part in kept]
        source = find_atoms(self.text, cuts=cuts, whole=[part.source for part in kept])
        target = find_atoms(translation, whole=whole)
        if alignment is None:
            placed = scale_items(self.items, source, len(target))
        else:
            copies = find_copies(self.text, translation, cuts, kept)
            target = find_atoms(translation, cuts=cut_copies(copies, cuts), whole=whole)
            weights = align_copies(alignment.of_atoms(source, target), copies, source, target)
            placed = Placer(self.text, translation, source, target, weights).place(self.items)
        content = Filler(translation, target).fill(placed)
        return PlacedText(f"{self.begin}{content}{self.end}", tuple(_emptied(placed)))


def _emptied(placed: Sequence[PlacedItem]) -> Iterator[str]:
    """Yield the start tags of elements that have words in the text, and none in its translation."""
    for one in placed:
        if one.item.end_tag is not None and one.item.begin < one.item.end and one.begin == one.end:
            yield one.item.start_tag
        yield from _emptied(one.children)


def parse_inline(fragment: str, rules: MarkupRules) -> InlineText:
    """Take the tags out of a fragment, which may be malformed. Raises DataError on elements nested too deep."""
    parts, problems = pair_tags(fragment, rules)
    first, last = _inner_parts(parts)
    outer = ["".join(part.source for part in some) for some in (parts[:first], parts[last:])]
    if first < last and parts[first].kind is None:
        outer[0] += _space(_SPACE, parts[first].source)
    if first < last and parts[last - 1].kind is None:
        outer[1] = _space(_REVERSED_SPACE, parts[last - 1].source[::-1])[::-1] + outer[1]
    reader = _Reader(parts)
    items = reader.read(first, last)
    return InlineText(reader.text.rstrip(), tuple(problems), fragment, outer[0], outer[1], items)


def _space(pattern: re.Pattern[str], source: str) -> str:
    found = pattern.match(source)
    return found[0] if found else ""


def _inner_parts(parts: Sequence[Part]) -> tuple[int, int]:
    """Return the parts without white space, empty tags and elements that surround all of the text."""
    words = [place for place, part in enumerate(parts) if part.text.strip()]
    if not words:
        return len(parts), len(parts)
    first, last = words[0], words[-1] + 1
    starts = next(
        (n for n in range(first) if parts[n].kind == "start" and parts[n].partner < last),
        first,
    )
    ends = next(
        (n + 1 for n in reversed(range(last, len(parts))) if parts[n].kind == "end" and parts[n].partner >= first), last
    )
    return starts, ends


class _Reader:
    """Collects the text and the items of the parts of a fragment."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._texts: list[str] = []
        self._length = 0
        self._last = ""
        """Last character of the text."""
        self._next_characters = [""] * (len(parts) + 1)
        """First character of the text at or after each part."""
        for place in reversed(range(len(parts))):
            self._next_characters[place] = parts[place].text[:1] or self._next_characters[place + 1]

    @property
    def text(self) -> str:
        """Text that was read."""
        return "".join(self._texts)

    def _add(self, text: str) -> None:
        self._texts.append(text)
        self._length += len(text)
        self._last = text[-1:] or self._last

    def read(self, first: int, last: int) -> tuple[Item, ...]:
        """Return the items of these parts, which are whole elements."""
        items = []
        place = first
        while place < last:
            part = self._parts[place]
            if part.kind is None:
                # White space on both sides of a tag is one space.
                at_start = not self._last or self._last.isspace()
                self._add(part.text.lstrip() if at_start else part.text)
            elif part.kind == "start":
                begin, number = self._length, place
                children = self.read(place + 1, part.partner)
                place = part.partner
                closing = self._parts[place]
                sides = (self._sides(number), self._sides(place))
                items.append(Item(number, begin, self._length, part.source, closing.source, sides, children))
            else:
                items.append(self._empty(place, part))
            place += 1
        return tuple(items)

    def _empty(self, place: int, part: Part) -> Item:
        sides = self._sides(place)
        begin = end = self._length
        if part.text and len(part.text) <= _MAX_KEPT_TEXT:
            self._add(part.text)
            end = self._length
        elif part.is_visible and self._last.isalnum() and self._next_characters[place + 1].isalnum():
            self._add("" if part.source.startswith("<wbr") else " ")  # a line break or an image separates words
        return Item(place, begin, end, part.source, None, (sides, sides), (), part.text, part.is_visible)

    def _sides(self, place: int) -> Sides:
        """Return whether white space stands before and after a tag; None where another tag or punctuation does."""
        left, right = self._neighbor(place, -1), self._neighbor(place, 1)
        found = (left.text[-1:] if left else "", right.text[:1] if right else "")
        return Sides(*(one.isspace() if one.isalnum() or one.isspace() else None for one in found))

    def _neighbor(self, place: int, step: int) -> Part | None:
        """Return the part next to a tag; next to a visible element, tags around words are passed over."""
        passes = self._parts[place].is_visible
        for other in range(place + 1, len(self._parts)) if step > 0 else range(place - 1, -1, -1):
            part = self._parts[other]
            if not passes or part.kind is None or part.is_visible:
                return part
        return None
