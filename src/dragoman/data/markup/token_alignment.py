"""Alignment of the tokens of a text and its translation, and of the words that tags stand between."""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, final

import numpy as np

from dragoman.array_types import Float
from dragoman.data.text_places import Span, TextTrace, move_span

_ATOMS: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_]+|\.{3}|(\S)\1*"
)
"""Words, and punctuation marks with their repetitions, an ellipsis by itself; characters of scripts without spaces."""
_MIN_WEIGHT: Final = 0.02
"""Sum of attention to the words of a source below which a word of a translation is not aligned."""


@final
@dataclass(frozen=True)
class TokenAlignment:
    """Weights of the tokens of a translation (rows) on the tokens of its source (columns), by their characters."""

    source_spans: tuple[Span, ...]
    target_spans: tuple[Span, ...]
    weights: Float[np.ndarray, "target source"]

    @classmethod
    def proportional(cls, source: str, target: str) -> Self:
        """Return a guess: each word is aligned to the word at the same share of the other text."""
        columns, rows = find_atoms(source), find_atoms(target)
        weights = np.zeros((len(rows), len(columns)))
        for row in range(len(rows) if columns else 0):
            weights[row, int((row + 0.5) * len(columns) / len(rows))] = 1
        return cls(tuple(columns), tuple(rows), weights)

    def moved(self, trace: TextTrace) -> Self:
        """Return the alignment of the same words in the texts that a trace leads to."""
        source = tuple(move_span(trace.source, span) for span in self.source_spans)
        target = tuple(move_span(trace.target, span) for span in self.target_spans)
        return replace(self, source_spans=source, target_spans=target)

    def of_atoms(self, source: Sequence[Span], target: Sequence[Span]) -> Float[np.ndarray, "targets sources"]:
        """Return the weights of atoms on atoms: each row sums to one, or is zero where nothing is aligned."""
        columns = _shares(self.source_spans, source)
        rows = _shares(self.target_spans, target).T
        rows = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-9)
        found = rows @ self.weights.astype(np.float64) @ columns
        totals = found.sum(axis=1, keepdims=True)
        return np.where(totals < _MIN_WEIGHT, 0, found / np.maximum(totals, 1e-9))


def find_atoms(text: str, *, cuts: Sequence[int] = (), whole: Sequence[Span] = ()) -> list[Span]:
    """Return the atoms of a text, with more ends at `cuts`. The spans in `whole` are one atom each, unless cut."""
    inner = sorted(set(cuts))
    found = []
    for start, end in _uncut_atoms(text, sorted(whole)):
        cuts_inside = inner[bisect_right(inner, start) : bisect_left(inner, end)]
        found += list(itertools.pairwise([start, *cuts_inside, end]))
    return found


def _uncut_atoms(text: str, whole: Sequence[Span]) -> Iterator[Span]:
    place = 0
    for start, end in whole:
        yield from (match.span() for match in _ATOMS.finditer(text, place, start))
        if start < end:
            yield start, end
        place = end
    yield from (match.span() for match in _ATOMS.finditer(text, place))


def _shares(tokens: Sequence[Span], atoms: Sequence[Span]) -> Float[np.ndarray, "tokens atoms"]:
    """Return which share of each token every atom has, in characters of atoms; atoms are in order."""
    shares = np.zeros((len(tokens), len(atoms)))
    starts = np.array([begin for begin, _ in atoms])
    for row, (begin, end) in enumerate(tokens):
        first = max(0, int(np.searchsorted(starts, begin, side="right")) - 1) if len(starts) else 0
        for place in range(first, len(atoms)):
            if atoms[place][0] >= end:
                break
            shares[row, place] = max(0, min(end, atoms[place][1]) - max(begin, atoms[place][0]))
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
