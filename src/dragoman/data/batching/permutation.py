"""An order drawn by chance of which any stretch can be known without the rest: for corpora too large to be shuffled."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching.epochs import Rows

_ROUNDS = 6
_ORDER = 0x0DE2
"""Beside the seed, for what is drawn here."""

Halves = NDArray[np.uint64]


def permute_indices(places: Rows, count: int, *, seed: Sequence[int]) -> Rows:
    """What stands at some places, each below `count`, of a permutation of the numbers below `count`.

    A Feistel network over the next power of four, gone through until the number is below `count` (Black and Rogaway,
    2002, section 4); its round functions are multiplications by odd numbers from `seed`. It takes a time and a memory
    that grow with the places asked for, and not with `count`.
    """
    bits = max(1, ((count - 1).bit_length() + 1) // 2)
    keys = np.random.default_rng([*seed, _ORDER]).integers(0, 2**64, size=(_ROUNDS, 2), dtype=np.uint64)
    found = _encrypted(places.astype(np.uint64), keys, bits)
    while (beyond := np.flatnonzero(found >= count)).size:
        found[beyond] = _encrypted(found[beyond], keys, bits)
    return found.astype(np.int64)


def _encrypted(numbers: Halves, keys: Halves, bits: int) -> Halves:
    width, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    left, right = numbers >> width, numbers & mask
    for addend, factor in keys:
        mixed = (right + addend) * (factor | np.uint64(1))
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << width) | right
