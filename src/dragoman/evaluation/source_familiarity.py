"""Familiarity of a text: whether a model was trained on texts like it.

A trigram model of the training sources gives each token of a text its surprisal $-\\log_2 p(w_i \\mid w_{i-2}, w_{i-1})$,
with the smoothing of Witten and Bell (1991) as in Chen and Goodman (1999), section 2.5. Two numbers tell texts apart: the
mean surprisal, as standard errors from the mean of held-out sources, and the largest surprisal of a token. Both have a
threshold that few held-out sources exceed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self, final

import numpy as np

from dragoman.array_types import Float, Int

ORDER: Final = 3
"""Tokens of the longest n-grams."""
MAX_NGRAMS: Final = 100_000
"""N-grams of each order that are kept, the most frequent first: 12 bytes each."""
FALSE_ALARMS: Final = 0.004
"""Share of held-out sources above each threshold."""
MIN_HELD_OUT: Final = 100
"""Held-out sources from which thresholds are measured."""
_EDGE: Final = 0
"""Id that stands for the place before and after a text; padding never occurs in a text."""

Ids = Sequence[int]


@final
@dataclass(frozen=True)
class NgramCounts:
    """Counts of the n-grams of one order."""

    keys: Int[np.ndarray, " ngrams"]
    """N-grams as numbers in the base of the vocabulary size, increasing."""
    counts: Int[np.ndarray, " ngrams"]

    @classmethod
    def of(cls, keys: Int[np.ndarray, " tokens"]) -> Self:
        """Count n-grams, and keep the most frequent ones."""
        unique, counts = np.unique(keys, return_counts=True)
        if len(unique) > MAX_NGRAMS:
            kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_NGRAMS])
            unique, counts = unique[kept], counts[kept]
        return cls(unique.astype(np.uint64), counts.astype(np.uint32))

    def find(self, keys: Int[np.ndarray, " tokens"]) -> Int[np.ndarray, " tokens"]:
        """Return the count of each n-gram, 0 for unknown ones."""
        return _look_up(self.keys, self.counts, keys)

    def contexts(self, vocab_size: int) -> "NgramContexts":
        """Return what follows each sequence of one token less."""
        contexts, starts = np.unique(self.keys // np.uint64(vocab_size), return_index=True)
        totals = np.add.reduceat(self.counts.astype(np.int64), starts) if len(starts) else starts
        return NgramContexts(contexts, totals, np.diff([*starts.tolist(), len(self.keys)]))


@final
@dataclass(frozen=True)
class NgramContexts:
    """Sequences that n-grams begin with: how many n-grams, and how many different ones."""

    keys: Int[np.ndarray, " contexts"]
    totals: Int[np.ndarray, " contexts"]
    types: Int[np.ndarray, " contexts"]


@final
@dataclass(frozen=True)
class SourceFamiliarity:
    """N-gram model of the sources that a model was trained on, and the thresholds of familiar texts."""

    vocab_size: int
    ngrams: tuple[NgramCounts, ...]
    """Counts of one token, of two, and of three."""
    mean: float = 0.0
    """Mean surprisal of a token of held-out sources, in bits."""
    deviation: float = 1.0
    """Standard deviation of the surprisal of a token."""
    max_mean: float = float("inf")
    """Standard errors from the mean above which a text is unfamiliar."""
    max_token: float = float("inf")
    """Surprisal of a token above which a text is unfamiliar."""

    @classmethod
    def fit(cls, sources: Iterable[Ids], held_out: Iterable[Ids], *, vocab_size: int) -> Self:
        """Count the n-grams of sources, and measure the thresholds on others."""
        padded = [np.array([_EDGE] * (ORDER - 1) + list(ids) + [_EDGE], dtype=np.uint64) for ids in sources]
        rows = [_ngram_keys(ids, order, vocab_size) for ids in padded for order in range(1, ORDER + 1)]
        counts = tuple(NgramCounts.of(np.concatenate(rows[order::ORDER] or [np.zeros(0)])) for order in range(ORDER))
        return cls(vocab_size, counts).calibrate(held_out)

    def calibrate(self, held_out: Iterable[Ids]) -> Self:
        """Return the same model with the thresholds of these sources; without enough of them, nothing is unfamiliar."""
        surprisals = [self.surprisals(ids) for ids in held_out if len(ids)]
        if len(surprisals) < MIN_HELD_OUT:
            return self
        tokens = np.concatenate(surprisals)
        measured = type(self)(self.vocab_size, self.ngrams, float(tokens.mean()), float(tokens.std()) or 1.0)
        means = np.array([measured.distance(bits) for bits in surprisals])
        largest = np.array([bits.max() for bits in surprisals])
        max_mean, max_token = (float(np.quantile(values, 1 - FALSE_ALARMS)) for values in (means, largest))
        return type(self)(self.vocab_size, self.ngrams, measured.mean, measured.deviation, max_mean, max_token)

    def is_unfamiliar(self, ids: Ids) -> bool:
        """Return whether the text with these ids is unlike the training sources."""
        if not len(ids):
            return False
        bits = self.surprisals(ids)
        return self.distance(bits) > self.max_mean or float(bits.max()) > self.max_token

    def distance(self, surprisals: Float[np.ndarray, " tokens"]) -> float:
        """Return how many standard errors the mean of surprisals is above the mean of held-out sources."""
        return float((surprisals - self.mean).sum() / (self.deviation * len(surprisals) ** 0.5))

    def surprisals(self, ids: Ids) -> Float[np.ndarray, " tokens"]:
        """Return the surprisal of each token and of the end of a text, in bits.

        $p(w \\mid h) = (c(hw) + T(h) p(w \\mid h')) / (c(h) + T(h))$, where $T(h)$ is the number of different tokens
        after $h$, and $h'$ is $h$ without its first token.
        """
        padded = np.array([_EDGE] * (ORDER - 1) + list(ids) + [_EDGE], dtype=np.uint64)
        size = np.uint64(self.vocab_size)
        probability = np.full(len(ids) + 1, 1 / self.vocab_size)
        for order, (ngrams, contexts) in enumerate(zip(self.ngrams, self._contexts, strict=True), 1):
            keys = _ngram_keys(padded, order, self.vocab_size)[-len(probability) :]
            totals = _look_up(contexts.keys, contexts.totals, keys // size)
            types = _look_up(contexts.keys, contexts.types, keys // size)
            seen = (ngrams.find(keys) + types * probability) / np.maximum(totals + types, 1)
            probability = np.where(totals > 0, seen, probability)
        return -np.log2(probability)

    @cached_property
    def _contexts(self) -> tuple[NgramContexts, ...]:
        return tuple(ngrams.contexts(self.vocab_size) for ngrams in self.ngrams)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the arrays and the numbers of the model, for a file."""
        arrays = {}
        for order, ngrams in enumerate(self.ngrams, 1):
            arrays |= {f"keys.{order}": ngrams.keys, f"counts.{order}": ngrams.counts}
        numbers = ("vocab_size", "mean", "deviation", "max_mean", "max_token")
        return arrays, {name: getattr(self, name) for name in numbers}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Any]) -> Self:
        """Return the model of arrays and numbers that `to_arrays` returned."""
        ngrams = tuple(NgramCounts(arrays[f"keys.{order}"], arrays[f"counts.{order}"]) for order in range(1, ORDER + 1))
        return cls(ngrams=ngrams, **numbers)


def _ngram_keys(padded: Int[np.ndarray, " tokens"], order: int, vocab_size: int) -> Int[np.ndarray, " ngrams"]:
    """Return the n-grams of a padded text whose last token is one of the text or its end, as numbers."""
    count = len(padded) - (ORDER - 1)
    keys = np.zeros(count, dtype=np.uint64)
    for place in range(ORDER - order, ORDER):
        keys = keys * np.uint64(vocab_size) + padded[place : place + count]
    return keys


def _look_up(
    keys: Int[np.ndarray, " known"], values: Int[np.ndarray, " known"], wanted: Int[np.ndarray, " wanted"]
) -> Int[np.ndarray, " wanted"]:
    """Return the value of each wanted key, 0 for unknown ones; `keys` are increasing."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0).astype(np.int64)
