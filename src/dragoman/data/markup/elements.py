"""Elements of a fragment: its tags in pairs, whatever order they stand in."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import final

from dragoman.data.markup.html_elements import OPAQUE
from dragoman.data.markup.tags import MarkupRules, Tag, TagKind, decode_text, has_text, is_section, read_tags
from dragoman.errors import DataError

MAX_DEPTH = 256
"""Elements inside of each other."""


@final
@dataclass(frozen=True, slots=True)
class Part:
    """Tag or text of a fragment. Tags without a partner are empty tags."""

    kind: TagKind | None
    """None of a text."""
    source: str
    text: str = ""
    """Of a text, or of an element that is not translated, without character references."""
    partner: int = -1
    """Index of the other tag of the element."""
    is_lone: bool = False
    """Whether this is a start or end tag without a partner."""

    @property
    def is_visible(self) -> bool:
        """Whether it takes the place of a word, as images and untranslated elements do."""
        return self.kind == "empty" and not self.is_lone


def pair_tags(fragment: str, rules: MarkupRules) -> tuple[list[Part], list[str]]:
    """Return the parts of a fragment, and a message for each tag without a partner.

    Elements without text, and those that are not translated, are one part. Raises DataError on elements that are
    nested too deep.
    """
    pieces = list(read_tags(fragment, rules.markup))
    partners, problems = _find_partners(pieces)
    texts = [0, *accumulate(isinstance(piece, str) and has_text(piece) for piece in pieces)]
    """Number of texts before each piece."""
    parts: list[Part] = []
    numbers: dict[int, int] = {}
    place = 0
    while place < len(pieces):
        piece, partner = pieces[place], partners.get(place, -1)
        if isinstance(piece, str):
            parts.append(Part(None, piece, decode_text(piece, rules.markup)))
        elif (
            piece.kind == "start"
            and partner >= 0
            and (texts[place] == texts[partner] or rules.is_ignored(piece.name, piece.source))
        ):
            inside = pieces[place + 1 : partner]
            text = "".join(one for one in inside if isinstance(one, str))
            source = "".join(one if isinstance(one, str) else one.source for one in pieces[place : partner + 1])
            is_opaque = rules.markup == "html" and piece.name in OPAQUE  # its text takes no part in a sentence
            parts.append(Part("empty", source, "" if is_opaque else decode_text(text, rules.markup).strip()))
            place = partner
        elif piece.kind == "empty" and is_section(piece.source):
            parts.append(Part(piece.kind, piece.source, decode_text(piece.source, rules.markup).strip()))
        elif piece.kind in ("start", "end") and partner < 0:
            parts.append(Part("empty", piece.source, is_lone=True))
        else:
            numbers[place] = len(parts)
            parts.append(Part(piece.kind, piece.source, partner=partner))
        place += 1
    numbered = [part if part.partner < 0 else replace(part, partner=numbers[part.partner]) for part in parts]
    return numbered, problems


def emptied_elements(fragment: str, translation: str, rules: MarkupRules) -> list[str]:
    """Return the start tags of elements that have text in a fragment, and none in its translation."""
    filled = (
        Counter(part.source for part in pair_tags(text, rules)[0] if part.kind == "start")
        for text in (fragment, translation)
    )
    return list((next(filled) - next(filled)).elements())


def check_depth(depth: int) -> None:
    """Raise DataError where elements are nested too deep."""
    if depth > MAX_DEPTH:
        raise DataError(f"The markup has more than {MAX_DEPTH} elements inside of each other. Flatten it.")


def _find_partners(pieces: Sequence[Tag | str]) -> tuple[dict[int, int], list[str]]:
    """Return the indices of start and end tags of elements; an end tag ends the elements inside of its own."""
    partners: dict[int, int] = {}
    problems: list[str] = []
    opened: list[tuple[int, str]] = []
    names: Counter[str] = Counter()
    """Number of open elements by name, so that an end tag without a partner does not search them."""
    for place, piece in enumerate(pieces):
        if isinstance(piece, str) or piece.kind not in ("start", "end"):
            continue
        if piece.kind == "start":
            opened.append((place, piece.name))
            names[piece.name] += 1
            check_depth(len(opened))
            continue
        if not names[piece.name]:
            problems.append(f"{piece.source:.60} ends no element")
            continue
        depth = next(n for n in reversed(range(len(opened))) if opened[n][1] == piece.name)
        names.subtract(name for _, name in opened[depth:])
        problems += [f"<{name}> has no end tag" for _, name in opened[depth + 1 :]]
        start = opened[depth][0]
        partners[start], partners[place] = place, start
        del opened[depth:]
    return partners, problems + [f"<{name}> has no end tag" for _, name in opened]
