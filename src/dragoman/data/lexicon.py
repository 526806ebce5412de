r"""Which token of a text stands for which of its translation, learnt from pairs of texts.

Model 1 of Brown et al. (1993): each target token $t$ comes from one source token $s$ of its pair, or from none of them,
with the probability $p(t \mid s)$; expectation-maximisation from equal probabilities.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int]
Numbers = NDArray[np.int64]

ITERATIONS = 4
MAX_PAIRS = 200_000
"""Pairs that are learnt from at most, taken evenly from all: what more would teach is rare."""
_PART = 4096
"""Pairs that are linked at a time."""


@final
@dataclass(frozen=True)
class Lexicon:
    """p(target | source) of the tokens that occur in a pair, by source token; `nothing` is the source of the rest."""

    source: Numbers
    target: Numbers
    probability: NDArray[np.float64]
    null: int

    def top_k(self, count: int) -> tuple[Numbers, Numbers]:
        """The `count` most probable targets of each source token, and the source of each; of equals the lower token."""
        real = self.source != self.null
        source, target, probability = self.source[real], self.target[real], self.probability[real]
        order = np.lexsort((target, -probability, source))
        source, target = source[order], target[order]
        begins = np.searchsorted(source, source)
        kept = np.arange(len(source)) - begins < count
        return source[kept], target[kept]


class _Links(NamedTuple):
    """Every source token of a pair with every target token: their `entry` in the table, by target token."""

    entry: NDArray[np.int32]
    each: Numbers
    """Links of each target token."""


def train_lexicon(pairs: Sequence[tuple[Ids, Ids]], *, source_size: int, target_size: int) -> Lexicon:
    """From the ids of pairs, under vocabularies of these sizes."""
    keyed = [_keys(part, nothing=source_size, target_size=target_size) for part in _parts(pairs)]
    table = np.unique(np.concatenate([np.unique(keys) for keys, _ in keyed] or [np.zeros(0, np.int64)]))
    links = [_Links(np.searchsorted(table, keys).astype(np.int32), each) for keys, each in keyed]
    source, target = table // target_size, table % target_size
    probability = np.ones(len(table))
    for _ in range(ITERATIONS):
        counts = sum((_expected(some, probability) for some in links), start=np.zeros(len(table)))
        probability = counts / np.bincount(source, counts, minlength=source_size + 1)[source]
    return Lexicon(source, target, probability, null=source_size)


def sample_evenly(pairs: Iterable[tuple[str, str]], most: int = MAX_PAIRS) -> list[tuple[str, str]]:
    """Half of `most` to `most` of the pairs, evenly from all, or all where there are no more."""
    kept: list[tuple[str, str]] = []
    every = 1
    for number, pair in enumerate(pairs):
        if number % every:
            continue
        if len(kept) == most:
            kept, every = kept[::2], 2 * every
            if number % every:
                continue
        kept.append(pair)
    return kept


def _parts(pairs: Sequence[tuple[Ids, Ids]]) -> Iterator[list[tuple[Ids, Ids]]]:
    iterator = iter(pairs)
    while part := list(islice(iterator, _PART)):
        yield part


def _keys(pairs: Sequence[tuple[Ids, Ids]], *, nothing: int, target_size: int) -> tuple[Numbers, Numbers]:
    """For each link one number that tells its tokens, and the links of each target token."""
    sources = np.concatenate([np.array([*source, nothing]) for source, _ in pairs])
    targets = np.array([token for _, target in pairs for token in target], dtype=np.int64)
    widths, heights = (np.array([len(pair[side]) for pair in pairs]) for side in (0, 1))
    widths = widths + 1
    each = np.repeat(widths, heights)
    begins = np.repeat(np.cumsum(widths) - widths, heights)
    ends = np.cumsum(each)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - (ends - each), each)
    return sources[places].astype(np.int64) * target_size + np.repeat(targets, each), each


def _expected(links: _Links, probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often each entry is expected to have been what happened."""
    if len(links.each) == 0:
        return np.zeros(len(probability))
    some = probability[links.entry]
    totals = np.add.reduceat(some, np.cumsum(links.each) - links.each)
    shares: NDArray[np.float64] = some / np.repeat(totals, links.each)
    return np.bincount(links.entry, weights=shares, minlength=len(probability)).astype(np.float64, copy=False)
