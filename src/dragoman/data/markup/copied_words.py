"""Words that a translation copies from its text, such as names and numbers: they are aligned to themselves."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, final

import numpy as np

from dragoman.array_types import Float
from dragoman.data.markup.token_alignment import find_atoms
from dragoman.data.text_places import KeptPart, Span

_MAX_SHORT: Final = 3
"""Characters of a word that may be an article or a preposition, and be another word in the other language."""


@final
class Copy(NamedTuple):
    """Word of a text and of its translation, by their first characters."""

    source: int
    target: int
    length: int


def find_copies(text: str, translation: str, cuts: Sequence[int], kept: Sequence[KeptPart] = ()) -> list[Copy]:
    """Return the kept parts, the words that stand once in a text and once in its translation, and those with `cuts`."""
    sides = tuple(
        (side, [atom for atom in find_atoms(side, whole=whole) if atom not in whole])
        for side, whole in ((text, [part.source for part in kept]), (translation, [part.target for part in kept]))
    )
    found = [Copy(one.source[0], one.target[0], one.source[1] - one.source[0]) for one in kept]
    used: tuple[set[int], set[int]] = set(), set()
    for key in (str, str.casefold):
        for one in _pairs(*sides, key=key, cuts=frozenset(cuts)):
            if one.source not in used[0] and one.target not in used[1]:
                used[0].add(one.source)
                used[1].add(one.target)
                found.append(one)
    return found


def cut_copies(copies: Sequence[Copy], cuts: Sequence[int]) -> list[int]:
    """Return the cuts of the text in the copies of its words, as characters of the translation."""
    places = sorted(set(cuts))
    return [
        one.target + cut - one.source
        for one in copies
        for cut in places[bisect_right(places, one.source) : bisect_left(places, one.source + one.length)]
    ]


def align_copies(
    weights: Float[np.ndarray, "targets sources"],
    copies: Sequence[Copy],
    source: Sequence[Span],
    target: Sequence[Span],
) -> Float[np.ndarray, "targets sources"]:
    """Align the atoms of copies to each other, and no other atom of the translation to them."""
    if not copies:
        return weights
    columns = {begin: column for column, (begin, _) in enumerate(source)}
    rows = {begin: row for row, (begin, _) in enumerate(target)}
    aligned = weights.copy()
    pairs = [
        (rows[one.target + offset], columns[one.source + offset])
        for one in copies
        for offset in range(one.length)
        if one.source + offset in columns and one.target + offset in rows
    ]
    aligned[:, [column for _, column in pairs]] = 0
    aligned /= np.maximum(aligned.sum(axis=1, keepdims=True), _MIN_REST)
    for row, column in pairs:
        aligned[row] = 0
        aligned[row, column] = 1
    return aligned


_MIN_REST: Final = 0.1
"""Weight on words that are not copied from which a word of a translation is aligned to them."""


def _pairs(
    source: tuple[str, Sequence[Span]],
    target: tuple[str, Sequence[Span]],
    *,
    key: Callable[[str], str],
    cuts: frozenset[int],
) -> Iterator[Copy]:
    places = [_places(*side, key=key) for side in (source, target)]
    for word, spans in places[0].items():
        copies = places[1].get(word, [])
        is_cut = any(cut in cuts for begin, end in spans for cut in range(begin + 1, end))
        is_sure = len(spans) == len(copies) == 1 and _is_name(source[0][slice(*spans[0])])
        if is_sure or (is_cut and len(spans) == len(copies)):
            for (begin, end), (start, stop) in zip(spans, copies, strict=True):
                if end - begin == stop - start:
                    yield Copy(begin, start, end - begin)


def _places(text: str, atoms: Sequence[Span], *, key: Callable[[str], str]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for begin, end in atoms:
        found.setdefault(key(text[begin:end]), []).append((begin, end))
    return found


def _is_name(word: str) -> bool:
    return len(word) > _MAX_SHORT or any(map(str.isdigit, word)) or (len(word) > 1 and word.isupper())
