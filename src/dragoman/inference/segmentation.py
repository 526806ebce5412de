"""Cutting a text that is too long for a network into pieces that are not."""

import re
from collections.abc import Callable

BREAKS = (
    re.compile(r"(?<=[.!?])\s+|(?<=[。！？।؟])\s*"),
    re.compile(r"(?<=[,;:])\s+|(?<=[，；：、،؛])\s*"),
    re.compile(r"\s+"),
)
"""Where a text may be cut, the best places first: after a sentence, after a clause, between words."""


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text itself if it fits, else its halves, cut in the same way; nothing but white space is left out.

    A text is cut at the place nearest to its middle of the best kind that stands in its middle half, between any two
    characters if there is none. One character is never cut.
    """
    if len(text) < 2 or fits(text):
        return [text]
    end, start = _cut(text)
    halves = (text[:end], text[start:])
    return [piece for half in halves if half for piece in split(half, fits)]


def _cut(text: str) -> tuple[int, int]:
    """Where the first half ends and where the second begins."""
    middle = len(text) / 2
    for breaks in BREAKS:
        places = [place.span() for place in breaks.finditer(text) if 0.5 <= place.start() / middle <= 1.5]
        if places:
            return min(places, key=lambda span: abs(span[0] - middle))
    return len(text) // 2, len(text) // 2
