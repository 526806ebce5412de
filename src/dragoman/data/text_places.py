"""Places of the characters of one text in another text, which differ in white space and in parts that are replaced."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

Span = tuple[int, int]
"""First character, and the one after the last."""
Places = tuple[int, ...]
"""Place of each character in the other text, `NOWHERE` for white space and parts that are replaced."""
NOWHERE: Final = -1


def match_characters(first: str, second: str, *, replaced: Sequence[Span], inserted: Sequence[Span]) -> Places:
    """Return the places of the characters of the first text in the second one.

    Outside of the parts that are `replaced` in the first text and `inserted` in the second, both have the same
    characters in the same order, except for white space.
    """
    read, written = _characters(first, replaced), _characters(second, inserted)
    assert [first[place] for place in read] == [second[place] for place in written], (
        f"text outside of the parts differs: {first!r} {second!r} {replaced} {inserted}"
    )
    places = [NOWHERE] * len(first)
    for place, other in zip(read, written, strict=True):
        places[place] = other
    return tuple(places)


def move_span(places: Places, span: Span) -> Span:
    """Return the span of the same characters in the other text; an empty one if it has none of them."""
    kept = [place for place in places[slice(*span)] if place != NOWHERE]
    return (min(kept), max(kept) + 1) if kept else (0, 0)


def _characters(text: str, without: Sequence[Span]) -> list[int]:
    """Return the places of the characters that are no white space, outside of some spans."""
    hidden = {place for span in without for place in range(*span)}
    return [place for place, character in enumerate(text) if not character.isspace() and place not in hidden]


@final
@dataclass(frozen=True, slots=True)
class KeptPart:
    """Part of a text that a translation keeps as a whole, such as a placeholder, and its place in the translation."""

    source: Span
    target: Span


@final
@dataclass(frozen=True, slots=True)
class TextTrace:
    """Places of what a model read and wrote in the text before a step, and in the translation after it is undone."""

    source: Places
    target: Places
    kept: tuple[KeptPart, ...]
