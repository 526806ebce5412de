"""Learning a unigram language model of pieces (Kudo, 2018, section 3.2).

Start from the substrings that cover most text; estimate their probabilities by EM over all segmentations of the words;
drop those whose loss hurts the likelihood least; repeat until as many are left as asked for. The trainer of the
`tokenizers` library gives another vocabulary on every call for the same corpus, hence this one; it uses the library's
model to segment.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

LONGEST_PIECE = 16
SEEDS_PER_PIECE = 10
KEPT_A_ROUND = 0.75
MOST_WORDS = 200_000
"""Distinct words that are looked at, most frequent first."""

Reals = NDArray[np.float64]


def learn_unigram(counts: Mapping[str, int], *, pieces: int) -> dict[str, float]:
    """At most `pieces` pieces with their log-probabilities, most probable first; frequent characters are among them."""
    words = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]
    if not words:
        return {}
    weights = np.array([counts[word] for word in words], dtype=np.float64)
    seeds = _seeds(words, counts, pieces)
    inventory = sorted(seeds)
    alive = np.ones(len(inventory), dtype=np.bool_)
    scores = _log_shares(np.array([seeds[piece] for piece in inventory], dtype=np.float64), alive)
    singles = np.array([len(piece) == 1 for piece in inventory])
    text, itself = Lattice(words, inventory), Lattice(inventory, inventory)
    while True:
        for _ in range(2):
            expected = text.expected_counts(scores, weights)
            scores = _log_shares(expected, alive)
        if alive.sum() <= pieces:
            break
        loss = np.where(singles, np.inf, _loss(expected, scores, itself.best_without_itself(scores)))
        size = max(pieces, int(alive.sum() * KEPT_A_ROUND))
        alive &= np.argsort(np.argsort(-np.where(alive, loss, -np.inf), kind="stable")) < size
        scores = np.where(alive, scores, -np.inf)
    order = np.argsort(-scores, kind="stable")[: int(alive.sum())]
    return {inventory[index]: float(scores[index]) for index in order}


def _seeds(words: Sequence[str], counts: Mapping[str, int], pieces: int) -> dict[str, int]:
    """Characters, most frequent first, then the substrings that cover most text, with the characters they cover."""
    characters: Counter[str] = Counter()
    substrings: Counter[str] = Counter()
    for word in words:
        count = counts[word]
        for start in range(len(word)):
            characters[word[start]] += count
            for end in range(start + 2, min(start + LONGEST_PIECE, len(word)) + 1):
                substrings[word[start:end]] += count
    alphabet = sorted(characters, key=lambda piece: (-characters[piece], piece))[: max(1, pieces // 2)]
    seeds = {piece: characters[piece] for piece in alphabet}
    covering = {piece: count * len(piece) for piece, count in substrings.items() if count > 1}
    best = sorted(covering, key=lambda piece: (-covering[piece], piece))[: pieces * SEEDS_PER_PIECE]
    return seeds | {piece: covering[piece] for piece in best}


def _loss(expected: Reals, scores: Reals, without: Reals) -> Reals:
    """What the text would lose in log-probability: count times (own score - score of the best way without it)."""
    used = expected > 0
    loss: Reals = np.zeros(len(expected))
    loss[used] = expected[used] * (scores[used] - without[used])
    return loss


def _log_shares(counts: Reals, alive: NDArray[np.bool_]) -> Reals:
    """Log-probabilities; a living piece that is never used keeps a small share, so that every way stays possible."""
    floored = np.where(alive, np.maximum(counts, 1e-3), 0.0)
    with np.errstate(divide="ignore"):
        shares: Reals = np.log(floored) - np.log(floored.sum())
    return shares


@final
class Lattice:
    """All segmentations of words; words of one length are one array of piece numbers, by word, start and size."""

    def __init__(self, words: Sequence[str], inventory: Sequence[str]) -> None:
        number = {piece: index for index, piece in enumerate(inventory)}
        self._absent = len(inventory)
        groups: dict[int, list[int]] = defaultdict(list)
        for index, word in enumerate(words):
            groups[len(word)].append(index)
        self._rows = {length: np.array(rows) for length, rows in sorted(groups.items())}
        self._pieces = {length: self._number(words, rows, number, length) for length, rows in self._rows.items()}
        self._words = len(words)

    def expected_counts(self, scores: Reals, weights: Reals) -> Reals:
        """How often each piece is used on average over all segmentations, by their probability (the E step)."""
        scores = np.append(scores, -np.inf)
        total = np.zeros(self._absent + 1)
        for length, rows in self._rows.items():
            pieces = self._pieces[length]
            logits = scores[pieces]
            before = _forward(logits, np.logaddexp)
            after = _backward(logits)
            likelihood = before[:, length, None]
            for size in range(1, pieces.shape[2] + 1):
                starts = length - size + 1
                joint = before[:, :starts] + logits[:, :starts, size - 1] + after[:, size:]
                with np.errstate(invalid="ignore"):  # a word with a character outside the alphabet: -inf - -inf
                    share = np.nan_to_num(np.exp(joint - likelihood), nan=0.0) * weights[rows, None]
                total += np.bincount(pieces[:, :starts, size - 1].ravel(), share.ravel(), minlength=len(total))
        return total[:-1]

    def best_without_itself(self, scores: Reals) -> Reals:
        """For each word, the score of its best segmentation into two pieces or more; -inf where there is none."""
        scores = np.append(scores, -np.inf)
        result = np.full(self._words, -np.inf)
        for length, rows in self._rows.items():
            logits = scores[self._pieces[length]]
            if length <= logits.shape[2]:
                logits[:, 0, length - 1] = -np.inf
            result[rows] = _forward(logits, np.maximum)[:, length]
        return result

    def _number(
        self, words: Sequence[str], rows: NDArray[np.intp], number: Mapping[str, int], length: int
    ) -> NDArray[np.int32]:
        widest = min(length, LONGEST_PIECE)
        pieces = np.full((len(rows), length, widest), self._absent, dtype=np.int32)
        for place, row in enumerate(rows.tolist()):
            word = words[row]
            for start in range(length):
                for size in range(1, min(widest, length - start) + 1):
                    pieces[place, start, size - 1] = number.get(word[start : start + size], self._absent)
        return pieces


def _forward(logits: Reals, join: np.ufunc) -> Reals:
    """Per word and position, the joined score of all ways to segment what stands before it."""
    words, length, widest = logits.shape
    before = np.full((words, length + 1), -np.inf)
    before[:, 0] = 0.0
    for end in range(1, length + 1):
        for size in range(1, min(widest, end) + 1):
            way = before[:, end - size] + logits[:, end - size, size - 1]
            before[:, end] = join(before[:, end], way)
    return before


def _backward(logits: Reals) -> Reals:
    """Per word and position, the joined score of all ways to segment what stands after it."""
    words, length, widest = logits.shape
    after = np.full((words, length + 1), -np.inf)
    after[:, length] = 0.0
    for start in range(length - 1, -1, -1):
        for size in range(1, min(widest, length - start) + 1):
            way = after[:, start + size] + logits[:, start, size - 1]
            after[:, start] = np.logaddexp(after[:, start], way)
    return after
