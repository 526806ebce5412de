"""Shortlists in Marian's order and in ours.

Marian adds the tokens of a source to its candidates if the vocabulary is shared; here they are part of the list of each
token. Tokens that are candidates always, and are not the first ones of Marian's vocabulary, go to the list of the end
symbol, which ends every source.
"""

from typing import Final

import numpy as np

from dragoman.data.shortlist import Shortlist
from dragoman.errors import DataError
from dragoman.interop.marian.shortlist_format import MarianShortlist
from dragoman.interop.vocabulary_order import ADDED, VocabularyOrder
from dragoman.models.special_symbols import EOS

_ADDITIONS: Final = 2**27
"""Maximum number of candidates, which take 1 GiB."""


def from_marian(
    shortlist: MarianShortlist, *, source: VocabularyOrder, target: VocabularyOrder, shared: bool, where: str
) -> Shortlist:
    """Return our shortlist. Raises DataError if its ids are not those of the vocabularies."""
    sizes = np.diff(shortlist.offsets)
    greatest = max(shortlist.first - 1, int(shortlist.ids.max(initial=0)))
    if len(sizes) > source.size or greatest >= target.size or len(shortlist.ids) > _ADDITIONS:
        raise DataError(
            f"{where}: has {len(sizes):,} source tokens and the target token {greatest:,}, and the vocabularies have "
            f"{source.size:,} and {target.size:,}. Do the files belong together?"
        )
    ours = target.our_ids[shortlist.ids]
    lists = np.split(ours, shortlist.offsets[1:-1]) + [np.zeros(0, ours.dtype)] * (source.size - len(sizes))
    found = []
    for index, foreign in enumerate(source.foreign_ids):
        own = [index] if shared and foreign != ADDED else []
        found.append(np.concatenate([own, lists[foreign] if foreign != ADDED else []]))
    always = np.unique([*range(EOS + 1), *target.our_ids[: shortlist.first]])
    values = np.concatenate(found) if found else np.zeros(0)
    return Shortlist(
        always.astype(np.int32),
        values.astype(np.int32),
        np.array([len(one) for one in found], dtype=np.int32),
        fill=target.our_ids.astype(np.int32),
    )


def to_marian(
    shortlist: Shortlist, *, source: VocabularyOrder, target: VocabularyOrder, shared: bool
) -> MarianShortlist:
    """Return Marian's shortlist with the same candidates."""
    always = {int(target.foreign_ids[index]) for index in shortlist.always} - {ADDED}
    first = next(number for number in range(len(always) + 1) if number not in always)
    lists: list[np.ndarray] = [np.zeros(0, np.int64)] * source.size
    bounds = np.cumsum(shortlist.lengths, dtype=np.int64)
    for index, own in enumerate(np.split(shortlist.values.astype(np.int64), bounds[:-1])):
        foreign = int(source.foreign_ids[index])
        if foreign != ADDED:
            others = own[1:] if shared and len(own) and own[0] == index else own
            lists[foreign] = _visible(target.foreign_ids[others])
    rest = sorted(one for one in always if one >= first)
    end = int(source.foreign_ids[EOS])
    lists[end] = np.concatenate([lists[end], np.setdiff1d(rest, lists[end])]).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return MarianShortlist(first, max(map(len, lists)), offsets, np.concatenate(lists))


def _visible(ids: np.ndarray) -> np.ndarray:
    found: np.ndarray = ids[ids != ADDED]
    return found
