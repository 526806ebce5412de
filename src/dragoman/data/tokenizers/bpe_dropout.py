"""BPE dropout from a seeded generator (Provilkov et al., 2020, algorithm 1).

At every step each merge that could be made is left out with probability p; the best of the rest is made; when none is
left the word is done. The `tokenizers` library draws from a generator that cannot be seeded, so that a run could not be
resumed bit for bit; hence this table. All words of one length go through the steps together, as arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.tokenizers.vocabulary import BYTES, SPECIALS, UNKNOWN, Merges, has_bytes

LONGEST_WORD = 512
"""Characters of a word above which it keeps its plain segmentation: the steps are quadratic in the length."""

NO_MERGE = np.iinfo(np.int32).max

Ids = NDArray[np.int32]
Places = NDArray[np.int64]
Segmented = tuple[Places, Ids]
"""Where words stand in the whole, and their symbols, one word a row."""


@final
class MergeTable:
    """The merges as sorted arrays: the pair (left, right) is written left · pieces + right."""

    def __init__(self, segmentation: Merges, *, plain: Callable[[str], list[int]]) -> None:
        """`plain` segments one word without dropout."""
        self._plain = plain
        self._ids = {piece: index for index, piece in enumerate(segmentation.pieces)}
        self._byte_ids = range(len(SPECIALS), len(SPECIALS) + len(BYTES)) if has_bytes(segmentation.pieces) else None
        size, ids = len(segmentation.pieces), self._ids
        pairs = np.array([ids[a] * size + ids[b] for a, b in segmentation.merges], dtype=np.int64)
        self._size = size
        self._rank_in_order = np.argsort(pairs, kind="stable").astype(np.int32)
        self._pairs = pairs[self._rank_in_order]
        self._merged = np.array([ids[a + b] for a, b in segmentation.merges], dtype=np.int32)

    def segment(
        self, texts: Sequence[Sequence[str]], *, probability: float, generator: np.random.Generator
    ) -> list[list[int]]:
        """The ids of texts that are given as words."""
        number: dict[str, int] = {}
        occurrences = np.array(
            [number.setdefault(word, len(number)) for text in texts for word in text], dtype=np.int64
        )
        words = list(number)
        spelt = [self._spell(word) for word in words]
        lengths = np.array([len(ids) for ids in spelt], dtype=np.int64)[occurrences]
        done: list[Segmented] = []
        for length in np.unique(lengths).tolist():
            places = np.flatnonzero(lengths == length)
            if length > LONGEST_WORD:
                plain = [self._plain(words[occurrences[place]]) for place in places]
                done += [(places[[row]], np.array([ids], dtype=np.int32)) for row, ids in enumerate(plain)]
            else:
                alike, which = np.unique(occurrences[places], return_inverse=True)
                symbols = np.array([spelt[word] for word in alike], dtype=np.int32)[which]
                done += self._merge_all(places, symbols, probability, generator)
        return _joined(done, places=len(occurrences), words=[len(text) for text in texts])

    def _spell(self, word: str) -> list[int]:
        """The characters of a word, the unseen ones in bytes or unknown."""
        ids: list[int] = []
        for character in word:
            known = self._ids.get(character)
            if known is not None:
                ids.append(known)
            elif self._byte_ids is not None:
                ids.extend(self._byte_ids[byte] for byte in character.encode())
            else:
                ids.append(UNKNOWN)
        return ids

    def _merge_all(
        self, places: Places, symbols: Ids, probability: float, generator: np.random.Generator
    ) -> Iterator[Segmented]:
        """Segment words of one length, one a row; every row still open is one symbol shorter after each step."""
        ranks = self._ranks(symbols[:, :-1], symbols[:, 1:])
        while True:
            best, columns = _choose(ranks, probability, generator)
            goes_on = best != NO_MERGE
            yield places[~goes_on], symbols[~goes_on]
            if not goes_on.any():
                return
            places = places[goes_on]
            symbols, ranks = self._merge(symbols[goes_on], ranks[goes_on], best[goes_on], columns[goes_on])

    def _merge(self, symbols: Ids, ranks: Ids, best: Ids, columns: Places) -> tuple[Ids, Ids]:
        """Join the symbols at `columns` and `columns + 1` of each row, and look up the two pairs that are new."""
        each = np.arange(len(symbols))
        merged = _without(symbols, columns + 1)
        merged[each, columns] = self._merged[best]
        shorter = _without(ranks, columns)
        for first in (columns - 1, columns):
            inside = (first >= 0) & (first < shorter.shape[1])
            row, column = each[inside], first[inside]
            shorter[row, column] = self._ranks(merged[row, column], merged[row, column + 1])
        return merged, shorter

    def _ranks(self, left: Ids, right: Ids) -> Ids:
        """The rank of the merge of each pair; `NO_MERGE` where there is none."""
        if not len(self._pairs):
            return np.full(left.shape, NO_MERGE, dtype=np.int32)
        pairs = left.astype(np.int64) * self._size + right
        found = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        ranks: Ids = np.where(self._pairs[found] == pairs, self._rank_in_order[found], NO_MERGE).astype(np.int32)
        return ranks


def _choose(ranks: Ids, probability: float, generator: np.random.Generator) -> tuple[Ids, Places]:
    """The best rank of each row that dropout leaves, and its column, leftmost first."""
    if ranks.shape[1] == 0:
        return np.full(len(ranks), NO_MERGE, dtype=np.int32), np.zeros(len(ranks), dtype=np.int64)
    if probability > 0:
        dropped = generator.random(ranks.shape, dtype=np.float32) < probability
        ranks = np.where(dropped, np.int32(NO_MERGE), ranks)
    columns = ranks.argmin(axis=1)
    return ranks[np.arange(len(ranks)), columns], columns


def _without(rows: Ids, columns: Places) -> Ids:
    """Each row with the entry of its column left out."""
    kept = np.arange(rows.shape[1]) != columns[:, None]
    shorter: Ids = rows[kept].reshape(len(rows), rows.shape[1] - 1)
    return shorter


def _joined(done: Sequence[Segmented], *, places: int, words: Sequence[int]) -> list[list[int]]:
    """Put the words back into their places, and cut the whole into texts of so many `words`."""
    lengths = np.zeros(places, dtype=np.int64)
    for where, symbols in done:
        lengths[where] = symbols.shape[1]
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    whole = np.empty(int(ends[-1]), dtype=np.int32)
    for where, symbols in done:
        whole[ends[where][:, None] + np.arange(symbols.shape[1])] = symbols
    bounds = ends[np.cumsum([0, *words])].tolist()
    return [whole[start:end].tolist() for start, end in pairwise(bounds)]
