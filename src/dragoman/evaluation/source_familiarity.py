r"""Familiarity of a text: whether a model was trained on texts like it.

A trigram model of the training sources gives each token of a text its surprisal $-\log_2 p(w_i | w_{i-2}, w_{i-1})$,
with the smoothing of Witten and Bell (1991) as in Chen and Goodman (1999), section 2.5. Two numbers tell texts apart:
the mean surprisal, as standard errors from the mean of held-out sources, and the largest surprisal of a token. Both
have a threshold that few held-out sources exceed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Self, final

import numpy as np
from safetensors.numpy import save

from dragoman.array_types import Float, Int
from dragoman.atomic_files import write_atomically
from dragoman.checksums import with_checksum
from dragoman.errors import DataError
from dragoman.safetensors_files import read_arrays
from dragoman.untrusted_files import MEBIBYTE, FileKind

ORDER: Final = 3
"""Tokens of the longest n-grams."""
MAX_NGRAMS: Final = 50_000
"""N-grams of each order that are kept, the most frequent first: 12 bytes each."""
FALSE_ALARMS: Final = 0.002
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

    def to_dict(self) -> dict[int, int]:
        """Return the count of each n-gram."""
        return dict(zip(self.keys.tolist(), self.counts.tolist(), strict=True))

    def contexts(self, vocab_size: int) -> dict[int, tuple[int, int]]:
        """Return how many n-grams begin with each sequence of one token less, and how many different ones."""
        found: dict[int, tuple[int, int]] = {}
        for key, count in self.to_dict().items():
            total, types = found.get(key // vocab_size, (0, 0))
            found[key // vocab_size] = total + count, types + 1
        return found


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
        r"""Return the surprisal of each token and of the end of a text, in bits.

        $p(w | h) = (c(hw) + T(h) p(w | h')) / (c(h) + T(h))$, where $T(h)$ is the number of different tokens
        after $h$, and $h'$ is $h$ without its first token.
        """
        size = self.vocab_size
        padded = [_EDGE] * (ORDER - 1) + list(ids) + [_EDGE]
        bits = []
        for end in range(ORDER - 1, len(padded)):
            probability, context, base = 1 / size, 0, 1
            for start, (counts, contexts) in zip(range(end, end - ORDER, -1), self._tables, strict=True):
                if start < end:
                    context, base = padded[start] * base + context, base * size
                total, types = contexts.get(context, (0, 0))
                if total:
                    count = counts.get(context * size + padded[end], 0)
                    probability = (count + types * probability) / (total + types)
            bits.append(-math.log2(probability))
        return np.array(bits)

    @cached_property
    def _tables(self) -> list[tuple[dict[int, int], dict[int, tuple[int, int]]]]:
        """Counts and contexts of each order; a dictionary is faster than arrays for the few tokens of a sentence."""
        return [(ngrams.to_dict(), ngrams.contexts(self.vocab_size)) for ngrams in self.ngrams]

    def save(self, path: Path) -> None:
        """Write the model to a file of safetensors, atomically."""
        arrays = {"numbers": np.array([getattr(self, name) for name in _NUMBERS], dtype=np.float64)}
        for order, ngrams in enumerate(self.ngrams, 1):
            arrays |= {f"keys.{order}": ngrams.keys, f"counts.{order}": ngrams.counts}
        write_atomically(path, *with_checksum(save(arrays)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote. Raises DataError if it is missing or damaged."""
        arrays = read_arrays(path, _FILE)
        try:
            numbers = dict(zip(_NUMBERS, arrays["numbers"].tolist(), strict=True))
            ngrams = [NgramCounts(arrays[f"keys.{order}"], arrays[f"counts.{order}"]) for order in range(1, ORDER + 1)]
            if any(table.keys.shape != table.counts.shape or table.keys.ndim != 1 for table in ngrams):
                raise ValueError("keys and counts differ in number")
            return cls(int(numbers.pop("vocab_size")), tuple(ngrams), **numbers)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: no statistics of sources ({error}); calibrate or train the run again") from error


_NUMBERS: Final = ("vocab_size", "mean", "deviation", "max_mean", "max_token")
_FILE: Final = FileKind(16 * MEBIBYTE, "train the run again")


def _ngram_keys(padded: Int[np.ndarray, " tokens"], order: int, vocab_size: int) -> Int[np.ndarray, " ngrams"]:
    """Return the n-grams of a padded text whose last token is one of the text or its end, as numbers."""
    count = len(padded) - (ORDER - 1)
    keys = np.zeros(count, dtype=np.uint64)
    for place in range(ORDER - order, ORDER):
        keys = keys * np.uint64(vocab_size) + padded[place : place + count]
    return keys
