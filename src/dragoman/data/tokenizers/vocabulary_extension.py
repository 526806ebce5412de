"""Extension of a trained vocabulary: new ids follow the old ids, which keep their meaning.

Byte pair encoding continues where it ended: old merges come first, and further merges are learned on what they leave of
the new text. A text without new characters or frequent pairs is segmented as before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import pairwise
from typing import assert_never

from dragoman.data.tokenizers.config import BpeConfig, TokenizerConfig, WordConfig
from dragoman.data.tokenizers.subword_tokenizer import SubwordTokenizer
from dragoman.data.tokenizers.tokenizer_pair import Pairs, Tokenizer
from dragoman.data.tokenizers.trainers import Texts, count_words
from dragoman.data.tokenizers.vocabulary import BpeModel, SubwordModel, UnigramModel, WordModel
from dragoman.errors import ConfigError

MIN_CHARACTER_COUNT = 2
"""Occurrences that a character needs to be added."""

Pair = tuple[str, str]


def extend_vocab(tokenizer: Tokenizer, pairs: Pairs, *, num_tokens: int) -> Tokenizer:
    """Add at most `num_tokens` tokens to each vocabulary, learned from (source, target) texts.

    Raises ConfigError for a unigram model, because every score would change.
    """
    if not num_tokens:
        return tokenizer

    def extend(texts: Texts, side: int) -> SubwordTokenizer:
        language = (tokenizer.source, tokenizer.target)[side]
        if not isinstance(language, SubwordTokenizer):
            raise ConfigError("extend_vocabulary: the vocabulary of an imported model cannot be extended; leave it out")
        normalizer = language.normalizer
        words = count_words(map(normalizer.normalize_and_escape, texts()), normalizer)
        return SubwordTokenizer(_extend_model(language, words, num_tokens, tokenizer.config), normalizer)

    return Tokenizer.from_sides(pairs, tokenizer.config, extend, shared=tokenizer.shared)


def _extend_model(
    language: SubwordTokenizer, words: Mapping[str, int], num_tokens: int, config: TokenizerConfig
) -> SubwordModel:
    match language.model:
        case BpeModel(vocab=vocab, merges=merges):
            with_characters = BpeModel(vocab + _new_characters(vocab, words, limit=num_tokens), merges)
            if not isinstance(config, BpeConfig):
                return with_characters
            room = num_tokens - (len(with_characters.vocab) - len(vocab))
            extended = SubwordTokenizer(with_characters, language.normalizer)
            return _add_merges(with_characters, words, extended, room, min_frequency=config.min_frequency)
        case WordModel(vocab=vocab):
            min_frequency = config.min_frequency if isinstance(config, WordConfig) else 1
            frequent = {word for word, count in words.items() if count >= min_frequency}
            new = sorted(frequent - set(vocab), key=lambda word: (-words[word], word))
            return WordModel(vocab + tuple(new[:num_tokens]))
        case UnigramModel():
            raise ConfigError(
                "extend_vocabulary: the vocabulary of a unigram model cannot be extended, because every score would "
                "change; leave it out, or start from a run with tokenizer.kind = bpe"
            )
        case _:
            assert_never(language.model)


def _new_characters(vocab: Iterable[str], words: Mapping[str, int], *, limit: int) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    new = [character for character in counts.keys() - set(vocab) if counts[character] >= MIN_CHARACTER_COUNT]
    return tuple(sorted(new, key=lambda character: (-counts[character], character))[:limit])


def _add_merges(
    model: BpeModel, words: Mapping[str, int], language: SubwordTokenizer, room: int, *, min_frequency: int
) -> BpeModel:
    """Add the merges that byte pair encoding would learn next on these words, most frequent pair first."""
    counts = _PairCounts(language, words)
    new: list[Pair] = []
    while len(new) < room and (best := counts.most_frequent(min_frequency=min_frequency)) is not None:
        counts.merge(best)
        new.append(best)
    vocab = (*model.vocab, *("".join(pair) for pair in new))
    return BpeModel(vocab, (*model.merges, *new))


class _PairCounts:
    """Words as tokens, and the frequency of each pair of adjacent tokens."""

    def __init__(self, language: SubwordTokenizer, words: Mapping[str, int]) -> None:
        self._word_counts = list(words.values())
        self._words = [list(_mergeable_tokens(language, word)) for word in words]
        self._counts: Counter[Pair] = Counter()
        self._positions: defaultdict[Pair, set[int]] = defaultdict(set)
        self._ids = {token: index for index, token in enumerate(language.model.vocab)}
        self._queue: list[tuple[int, int, int, Pair]] = []  # all past counts of each pair, greatest first
        changed = set().union(*(self._count(place, sign=1) for place in range(len(self._words))))
        self._enqueue(changed)

    def most_frequent(self, *, min_frequency: int) -> Pair | None:
        """Return the next pair to merge; ties break by id, and pairs whose merge is a token already are skipped."""
        while self._queue:
            negative, _, _, pair = self._queue[0]
            if self._counts[pair] == -negative and "".join(pair) not in self._ids:
                return pair if -negative >= min_frequency else None
            heappop(self._queue)
        return None

    def merge(self, pair: Pair) -> None:
        self._ids["".join(pair)] = len(self._ids)
        changed: set[Pair] = set()
        for place in sorted(self._positions.pop(pair)):
            changed |= self._count(place, sign=-1)
            self._words[place] = _merge(self._words[place], pair)
            changed |= self._count(place, sign=1)
        self._enqueue(changed)

    def _count(self, place: int, *, sign: int) -> set[Pair]:
        """Add or subtract the pairs of a word, and return them."""
        pairs = [(left, right) for left, right in pairwise(self._words[place]) if left and right]
        for pair in pairs:
            self._counts[pair] += sign * self._word_counts[place]
            if sign > 0:
                self._positions[pair].add(place)
        return set(pairs)

    def _enqueue(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            if self._counts[pair] > 0:
                heappush(self._queue, (-self._counts[pair], self._ids[pair[0]], self._ids[pair[1]], pair))


def _mergeable_tokens(language: SubwordTokenizer, word: str) -> Iterator[str]:
    """Yield the tokens of a word; byte and unknown tokens are empty, because they cannot be merged."""
    for index in language.encode_word(word):
        token = language.model.vocab[index]
        yield token if token in word else ""


def _merge(tokens: Iterable[str], pair: Pair) -> list[str]:
    merged: list[str] = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return merged
