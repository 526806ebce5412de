"""More entries for a vocabulary that was learnt before: new ids follow the old ones, which go on meaning what they did.

Byte pair encoding goes on where it ended: the old merges come first, and what they leave of the new text is merged
further. A text in which nothing new occurs is segmented as before.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import pairwise
from typing import assert_never

from dragoman.data.tokenizers.config import Bpe, TokenizerSettings, Words
from dragoman.data.tokenizers.language_tokenizer import Side
from dragoman.data.tokenizers.tokenizer import Pairs, Tokenizer
from dragoman.data.tokenizers.trainers import Texts, count_words
from dragoman.data.tokenizers.vocabulary import Merges, Scores, Segmentation, WholeWords
from dragoman.errors import ConfigError

SEEN = 2
"""How often a character must occur to become an entry."""

Pair = tuple[str, str]


def extended(tokenizer: Tokenizer, pairs: Pairs, *, entries: int) -> Tokenizer:
    """The tokenizer with at most so many `entries` more in each vocabulary, learnt from (source, target) texts.

    Raises ConfigError for a unigram model, whose every score would have to change.
    """
    if not entries:
        return tokenizer
    settings = tokenizer.settings
    if tokenizer.shared:
        both = _extended(tokenizer.source, lambda: (text for pair in pairs() for text in pair), entries, settings)
        return Tokenizer(both, both, settings)
    source = _extended(tokenizer.source, lambda: (pair[0] for pair in pairs()), entries, settings)
    target = _extended(tokenizer.target, lambda: (pair[1] for pair in pairs()), entries, settings)
    return Tokenizer(source, target, settings)


def _extended(side: Side, texts: Texts, entries: int, settings: TokenizerSettings) -> Side:
    preparation = side.preparation
    words = count_words((preparation.mark(preparation.normalise(text)) for text in texts()), preparation)
    return Side(_more(side.segmentation, words, entries, settings, lambda more: Side(more, preparation)), preparation)


def _more(
    segmentation: Segmentation,
    words: Mapping[str, int],
    entries: int,
    settings: TokenizerSettings,
    side: Callable[[Segmentation], Side],
) -> Segmentation:
    match segmentation:
        case Merges(pieces=pieces, merges=merges):
            spelling = Merges(pieces + _new_characters(pieces, words, most=entries), merges)
            if not isinstance(settings, Bpe):
                return spelling
            room = entries - (len(spelling.pieces) - len(pieces))
            return _merged_further(spelling, words, side(spelling), room, least=settings.minimum_count)
        case WholeWords(pieces=pieces):
            least = settings.minimum_count if isinstance(settings, Words) else 1
            often = {word for word, count in words.items() if count >= least}
            new = sorted(often - set(pieces), key=lambda word: (-words[word], word))
            return WholeWords(pieces + tuple(new[:entries]))
        case Scores():
            raise ConfigError(
                "extend_vocabulary: the vocabulary of a unigram model cannot be extended, for every score would "
                "change; leave it out, or begin with a run whose tokenizer.kind is bpe"
            )
        case _:
            assert_never(segmentation)


def _new_characters(pieces: Iterable[str], words: Mapping[str, int], *, most: int) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    new = [character for character in counts.keys() - set(pieces) if counts[character] >= SEEN]
    return tuple(sorted(new, key=lambda character: (-counts[character], character))[:most])


def _merged_further(segmentation: Merges, words: Mapping[str, int], side: Side, room: int, *, least: int) -> Merges:
    """With the merges that byte pair encoding would make next on these words, most frequent pair first."""
    counted = _Counted(side, words)
    new: list[Pair] = []
    while len(new) < room and (best := counted.most_frequent(least=least)) is not None:
        counted.merge(best)
        new.append(best)
    pieces = (*segmentation.pieces, *("".join(pair) for pair in new))
    return Merges(pieces, (*segmentation.merges, *new))


class _Counted:
    """Words as pieces, and how often each pair of neighbours occurs in them."""

    def __init__(self, side: Side, words: Mapping[str, int]) -> None:
        self._counts_of_words = list(words.values())
        self._words = [list(_joinable(side, word)) for word in words]
        self._counts: Counter[Pair] = Counter()
        self._places: defaultdict[Pair, set[int]] = defaultdict(set)
        self._ids = {piece: index for index, piece in enumerate(side.segmentation.pieces)}
        self._queue: list[tuple[int, int, int, Pair]] = []  # every count that a pair ever had, the greatest first
        changed = set().union(*(self._count(place, sign=1) for place in range(len(self._words))))
        self._enter(changed)

    def most_frequent(self, *, least: int) -> Pair | None:
        """The pair to be merged next; ties in the order of the entries, and none whose whole is an entry already."""
        while self._queue:
            negative, _, _, pair = self._queue[0]
            if self._counts[pair] == -negative and "".join(pair) not in self._ids:
                return pair if -negative >= least else None
            heappop(self._queue)
        return None

    def merge(self, pair: Pair) -> None:
        self._ids["".join(pair)] = len(self._ids)
        changed: set[Pair] = set()
        for place in sorted(self._places.pop(pair)):
            changed |= self._count(place, sign=-1)
            self._words[place] = list(_merge(self._words[place], pair))
            changed |= self._count(place, sign=1)
        self._enter(changed)

    def _count(self, place: int, *, sign: int) -> set[Pair]:
        """Count the pairs of a word in or out, and return them."""
        pairs = [(left, right) for left, right in pairwise(self._words[place]) if left and right]
        for pair in pairs:
            self._counts[pair] += sign * self._counts_of_words[place]
            if sign > 0:
                self._places[pair].add(place)
        return set(pairs)

    def _enter(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            if self._counts[pair] > 0:
                heappush(self._queue, (-self._counts[pair], self._ids[pair[0]], self._ids[pair[1]], pair))


def _joinable(side: Side, word: str) -> Iterator[str]:
    """The pieces of a word; what is spelt in bytes or unknown is empty, for no piece can be made of it."""
    for index in side.spell(word):
        piece = side.segmentation.pieces[index]
        yield piece if piece in word else ""


def _merge(pieces: Iterable[str], pair: Pair) -> Iterator[str]:
    waiting: str | None = None
    for piece in pieces:
        if waiting is None:
            waiting = piece
        elif (waiting, piece) == pair:
            yield waiting + piece
            waiting = None
        else:
            yield waiting
            waiting = piece
    if waiting is not None:
        yield waiting
