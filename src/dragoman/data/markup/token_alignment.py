"""Alignment of the tokens of a text and its translation, and of the words that tags stand between."""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, final

import numpy as np

from dragoman.array_types import Float

Span = tuple[int, int]
"""First character, and the one after the last."""
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

    def of_atoms(self, source: Sequence[Span], target: Sequence[Span]) -> Float[np.ndarray, "targets sources"]:
        """Return the weights of atoms on atoms: each row sums to one, or is zero where nothing is aligned."""
        columns = _shares(self.source_spans, source)
        rows = _shares(self.target_spans, target).T
        rows = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-9)
        found = rows @ self.weights.astype(np.float64) @ columns
        totals = found.sum(axis=1, keepdims=True)
        return np.where(totals < _MIN_WEIGHT, 0, found / np.maximum(totals, 1e-9))


def find_atoms(text: str, *, cuts: Sequence[int] = ()) -> list[Span]:
    """Return the atoms of a text, with more ends at `cuts`."""
    inner = sorted(set(cuts))
    found = []
    for match in _ATOMS.finditer(text):
        own = inner[bisect_right(inner, match.start()) : bisect_left(inner, match.end())]
        ends = [match.start(), *own, match.end()]
        found += list(itertools.pairwise(ends))
    return found


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
