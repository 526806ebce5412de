"""Mixing several corpora by weight or temperature, and shuffling corpora too large for memory.

The lines of a mixture are numbered from corpus to corpus, so that a line identifies its corpus.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dragoman.array_types import Rows
from dragoman.config import Config
from dragoman.data.readers.parallel import ParallelCorpus

_SAMPLING_KEY, _PERMUTATION_KEY = 0x3A11, 0x0DE2
"""Added to the seed, so that these draws are independent of the order of the batches."""
_ROUNDS = 6

Halves = NDArray[np.uint64]


class ExtraCorpus(Config):
    """An additional training corpus."""

    corpus: ParallelCorpus
    """Pairs, cleaned like those of `train`."""
    weight: float = Field(default=1.0, gt=0.0, le=1000.0)
    """Average number of times that each pair is used in an epoch; pairs of `train` are used once."""


@final
@dataclass(frozen=True)
class CorpusWeights:
    """Average number of times that rows of each corpus are used in an epoch."""

    ends: NDArray[np.int64]
    """First row after each corpus."""
    weights: NDArray[np.float64]
    """Weight of each corpus."""

    def weights_of(self, rows: Rows) -> NDArray[np.float64]:
        """Return the weights of rows."""
        found: NDArray[np.float64] = self.weights[np.searchsorted(self.ends, rows, side="right")]
        return found

    def tokens_per_epoch(self, lengths: Callable[[int, int], int]) -> float:
        """Return the average number of tokens of an epoch; `lengths` gives those between two rows."""
        starts = [0, *self.ends.tolist()]
        return sum(
            weight * lengths(start, end)
            for weight, start, end in zip(self.weights.tolist(), starts, starts[1:], strict=False)
        )


def row_ends(line_of: Callable[[int], int], rows: int, ends: Sequence[int]) -> NDArray[np.int64]:
    """Return the first row after each corpus of a mixture, whose lines increase from row to row."""
    return np.array([bisect_right(range(rows), end, key=line_of) for end in ends], dtype=np.int64)


def temperature_weights(ends: NDArray[np.int64], temperature: float) -> CorpusWeights:
    r"""Return weights by which a corpus of $n_i$ pairs has the share $n_i^{1/T} / \sum_j n_j^{1/T}$ of an epoch.

    At T = 1 each pair is used once; a higher T makes the shares more equal (Arivazhagan et al., 2019, section 4.2). The
    length of an epoch does not depend on T.
    """
    sizes = np.maximum(np.diff(ends, prepend=0), 1).astype(np.float64)  # an empty corpus must not divide by zero
    shares = sizes ** (1 / temperature)
    return CorpusWeights(ends, sizes ** (1 / temperature - 1) * (sizes.sum() / shares.sum()))


def locate_line(line: int, ends: Sequence[int]) -> tuple[int, int]:
    """Return the corpus (from 0) of a line of the mixture, and the line in that corpus."""
    corpus = bisect_left(ends, line)
    return corpus, line - (ends[corpus - 1] if corpus else 0)


def sample_rows(weights: NDArray[np.float64], *, seed: Sequence[int]) -> Rows:
    """Return indices, each as often as its weight says; the fraction of a weight is a probability drawn from `seed`."""
    generator = np.random.default_rng([*seed, _SAMPLING_KEY])
    whole = np.floor(weights)
    counts = whole.astype(np.int64) + (generator.random(len(weights)) < weights - whole)
    rows: Rows = np.repeat(np.arange(len(weights)), counts)
    return rows


def permute_indices(places: Rows, count: int, *, seed: Sequence[int]) -> Rows:
    """Return the entries at `places` of a random permutation of the numbers below `count`.

    A Feistel network over the next power of four, repeated until the number is below `count` (Black and Rogaway, 2002,
    section 4); its round functions multiply by odd numbers from `seed`. Time and memory grow with the number of places,
    not with `count`.
    """
    bits = max(1, ((count - 1).bit_length() + 1) // 2)
    keys = np.random.default_rng([*seed, _PERMUTATION_KEY]).integers(0, 2**64, size=(_ROUNDS, 2), dtype=np.uint64)
    found = _encrypt(places.astype(np.uint64), keys, bits)
    while (beyond := np.flatnonzero(found >= count)).size:
        found[beyond] = _encrypt(found[beyond], keys, bits)
    return found.astype(np.int64)


def _encrypt(numbers: Halves, keys: Halves, bits: int) -> Halves:
    width, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    left, right = numbers >> width, numbers & mask
    for addend, factor in keys:
        mixed = (right + addend) * (factor | np.uint64(1))
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << width) | right
