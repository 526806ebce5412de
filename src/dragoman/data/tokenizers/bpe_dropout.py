"""BPE dropout from a seeded generator (Provilkov et al., 2020, algorithm 1).

At every step, each possible merge is skipped with probability p and the best remaining merge is applied; a word is
finished when no merge remains. The `tokenizers` library cannot be seeded, so that runs could not be resumed bit for
bit. Words of one length are processed together, as arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.tokenizers.vocabulary import UNK, BpeModel, byte_token_ids

MAX_WORD_LENGTH = 512
"""Characters of a word above which it is segmented without dropout: the cost is quadratic in the length."""

NO_MERGE = np.iinfo(np.int32).max

_Ids = NDArray[np.int32]
Indices = NDArray[np.int64]
Segmented = tuple[Indices, _Ids]
"""Indices of words among all words, and their symbols, one word per row."""


@final
class BpeDropout:
    """Merges as sorted arrays; the pair (left, right) is encoded as left · vocab_size + right."""

    def __init__(self, model: BpeModel, *, plain: Callable[[str], list[int]]) -> None:
        """`plain` segments one word without dropout."""
        self._plain = plain
        self._ids = {token: index for index, token in enumerate(model.vocab)}
        self._byte_ids = byte_token_ids(model.vocab)
        size, ids = len(model.vocab), self._ids
        pairs = np.array([ids[a] * size + ids[b] for a, b in model.merges], dtype=np.int64)
        self._size = size
        self._rank_in_order = np.argsort(pairs, kind="stable").astype(np.int32)
        self._pairs = pairs[self._rank_in_order]
        self._merged = np.array([ids[a + b] for a, b in model.merges], dtype=np.int32)

    def encode(
        self, texts: Sequence[Sequence[str]], *, probability: float, generator: np.random.Generator
    ) -> list[list[int]]:
        """Return the ids of texts given as lists of words."""
        number: dict[str, int] = {}
        occurrences = np.array(
            [number.setdefault(word, len(number)) for text in texts for word in text], dtype=np.int64
        )
        words = list(number)
        spelled = [self._spell(word) for word in words]
        lengths = np.array([len(ids) for ids in spelled], dtype=np.int64)[occurrences]
        done: list[Segmented] = []
        for length in np.unique(lengths).tolist():
            places = np.flatnonzero(lengths == length)
            if length > MAX_WORD_LENGTH:
                plain = [self._plain(words[occurrences[place]]) for place in places]
                done += [(places[[row]], np.array([ids], dtype=np.int32)) for row, ids in enumerate(plain)]
            else:
                alike, which = np.unique(occurrences[places], return_inverse=True)
                symbols = np.array([spelled[word] for word in alike], dtype=np.int32)[which]
                done += self._merge_all(places, symbols, probability, generator)
        return _restore_order(done, places=len(occurrences), words=[len(text) for text in texts])

    def _spell(self, word: str) -> list[int]:
        """Return the ids of the characters of a word; unseen characters become bytes or UNK."""
        ids: list[int] = []
        for character in word:
            known = self._ids.get(character)
            if known is not None:
                ids.append(known)
            elif self._byte_ids:
                ids.extend(self._byte_ids[byte] for byte in character.encode())
            else:
                ids.append(UNK)
        return ids

    def _merge_all(
        self, indices: Indices, symbols: _Ids, probability: float, generator: np.random.Generator
    ) -> Iterator[Segmented]:
        """Segment words of one length, one per row; each step shortens every unfinished row by one symbol."""
        ranks = self._ranks(symbols[:, :-1], symbols[:, 1:])
        while True:
            best, columns = _choose(ranks, probability, generator)
            unfinished = best != NO_MERGE
            yield indices[~unfinished], symbols[~unfinished]
            if not unfinished.any():
                return
            indices = indices[unfinished]
            symbols, ranks = self._merge(symbols[unfinished], ranks[unfinished], best[unfinished], columns[unfinished])

    def _merge(self, symbols: _Ids, ranks: _Ids, best: _Ids, columns: Indices) -> tuple[_Ids, _Ids]:
        """Merge the symbols at `columns` and `columns + 1` of each row, and look up the two new pairs."""
        each = np.arange(len(symbols))
        merged = _remove_column(symbols, columns + 1)
        merged[each, columns] = self._merged[best]
        shorter = _remove_column(ranks, columns)
        for first in (columns - 1, columns):
            inside = (first >= 0) & (first < shorter.shape[1])
            row, column = each[inside], first[inside]
            shorter[row, column] = self._ranks(merged[row, column], merged[row, column + 1])
        return merged, shorter

    def _ranks(self, left: _Ids, right: _Ids) -> _Ids:
        """Return the rank of the merge of each pair, `NO_MERGE` for pairs without a merge."""
        if not len(self._pairs):
            return np.full(left.shape, NO_MERGE, dtype=np.int32)
        pairs = left.astype(np.int64) * self._size + right
        found = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        ranks: _Ids = np.where(self._pairs[found] == pairs, self._rank_in_order[found], NO_MERGE).astype(np.int32)
        return ranks


def _choose(ranks: _Ids, probability: float, generator: np.random.Generator) -> tuple[_Ids, Indices]:
    """Return the best rank of each row after dropout and its leftmost column."""
    if ranks.shape[1] == 0:
        return np.full(len(ranks), NO_MERGE, dtype=np.int32), np.zeros(len(ranks), dtype=np.int64)
    if probability > 0:
        dropped = generator.random(ranks.shape, dtype=np.float32) < probability
        ranks = np.where(dropped, np.int32(NO_MERGE), ranks)
    columns = ranks.argmin(axis=1)
    return ranks[np.arange(len(ranks)), columns], columns


def _remove_column(rows: _Ids, columns: Indices) -> _Ids:
    """Remove one entry per row."""
    kept = np.arange(rows.shape[1]) != columns[:, None]
    shorter: _Ids = rows[kept].reshape(len(rows), rows.shape[1] - 1)
    return shorter


def _restore_order(done: Sequence[Segmented], *, places: int, words: Sequence[int]) -> list[list[int]]:
    """Restore the order of the words and split them into texts with these numbers of `words`."""
    lengths = np.zeros(places, dtype=np.int64)
    for where, symbols in done:
        lengths[where] = symbols.shape[1]
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    whole = np.empty(int(ends[-1]), dtype=np.int32)
    for where, symbols in done:
        whole[ends[where][:, None] + np.arange(symbols.shape[1])] = symbols
    bounds = ends[np.cumsum([0, *words])].tolist()
    return [whole[start:end].tolist() for start, end in pairwise(bounds)]
