"""Elements and tags inside of a text, in characters of the text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self, final


class Sides(NamedTuple):
    """Presence of white space on both sides of a tag; None where neither a word nor white space is next to it."""

    left: bool | None
    right: bool | None


@final
@dataclass(frozen=True, slots=True)
class Item:
    """Element with a start and an end tag, or anything without: an empty element, a comment, a tag without partner."""

    number: int
    """Order in the source."""
    begin: int
    end: int
    start_tag: str
    """All of an item without end tag."""
    end_tag: str | None
    sides: tuple[Sides, Sides]
    """White space around the start tag and the end tag."""
    children: tuple[Self, ...]
    text: str = ""
    """Text of an element that is not translated."""
    is_visible: bool = False
    """Whether it takes the place of a word, as images and untranslated elements do."""

    @property
    def cuts(self) -> Iterator[int]:
        """Yield the characters where it and its children begin and end."""
        yield self.begin
        yield self.end
        for child in self.children:
            yield from child.cuts


@final
@dataclass(frozen=True, slots=True)
class PlacedItem:
    """Item at the atoms of a translation from `begin` to `end`; one without atoms stands before atom `begin`."""

    item: Item
    begin: int
    end: int
    children: tuple[Self, ...]
