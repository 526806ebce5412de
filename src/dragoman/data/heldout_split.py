"""A held-out part of a corpus that gives no validation set: chosen by hash, so that it is the same on every machine."""

import heapq
from collections.abc import Iterable

from dragoman.data.hashing import text_hash
from dragoman.data.readers.parallel import Example

MAX_VALID_SIZE = 2000
VALID_SHARE = 0.05


def default_valid_size(examples: int) -> int:
    """How many sources are held out unless told otherwise: 5 %, at least 1, at most 2,000."""
    return max(1, min(MAX_VALID_SIZE, int(VALID_SHARE * examples)))


def split_hash(example: Example, *, seed: int) -> int:
    """The place of an example in the draw; pairs with the same source, whatever its case, have the same."""
    return text_hash(example.source.casefold(), seed=seed)


def split_threshold(examples: Iterable[Example], *, size: int, seed: int) -> int:
    """The key up to which examples are held out, so that `size` different sources are (all, if there are no more).

    Constant memory: the `size` lowest keys are kept.
    """
    lowest: list[int] = []  # a heap of negated keys: the highest kept key stands first
    kept: set[int] = set()
    for example in examples:
        key = split_hash(example, seed=seed)
        if key in kept:
            continue
        if len(lowest) < size:
            heapq.heappush(lowest, -key)
            kept.add(key)
        elif key < -lowest[0]:
            kept.discard(-heapq.heapreplace(lowest, -key))
            kept.add(key)
    return -lowest[0] if lowest else -1
