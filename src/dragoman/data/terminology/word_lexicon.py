"""Word translations learned from parallel text, and word alignment by them.

IBM Model 1 (Brown et al., 1993) is trained in both directions. A source and a target word of a pair are aligned where
each is the most probable translation of the other (Och and Ney, 2003).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

from dragoman.data.shortlist import sample_evenly, train_lexicon
from dragoman.data.terminology.words import share_stem, split_words

MAX_PAIRS = 50_000
"""Maximum number of pairs, sampled evenly."""
MAX_WORDS = 80
"""Words of a side above which a pair is left out: its links take quadratic memory."""
MIN_PROBABILITY = 0.01
"""Probability of a translation below which it is left out."""

Table = Mapping[str, Mapping[str, float]]
"""Probabilities of the translations of each word."""
Link = tuple[int, int]
"""Places of a source and a target word."""


@final
@dataclass(frozen=True)
class WordLexicon:
    """Translations of words, in lowercase, in both directions."""

    forward: Table
    """Target words by source word: p(target | source)."""
    backward: Table
    """Source words by target word: p(source | target)."""
    counts: Mapping[str, int]
    """Occurrences of each source word."""
    _frequent: dict[int, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def train(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Learn the translations of the words of (source, target) texts."""
        split = [
            tuple([word.text.lower() for word in split_words(text)] for text in pair)
            for pair in sample_evenly(pairs, most=MAX_PAIRS)
        ]
        kept = [(source, target) for source, target in split if max(len(source), len(target)) <= MAX_WORDS]
        counts = Counter(word for source, _ in kept for word in source)
        ids = [_number(word for pair in kept for word in pair[side]) for side in (0, 1)]
        coded = [([ids[0][word] for word in source], [ids[1][word] for word in target]) for source, target in kept]
        forward = _table(coded, *ids)
        backward = _table([(target, source) for source, target in coded], *ids[::-1])
        return cls(forward, backward, counts)

    def align(self, source: Sequence[str], target: Sequence[str]) -> list[Link]:
        """Return the links between the words of a pair; each word has one at most."""
        sources, targets = ([word.lower() for word in side] for side in (source, target))
        best = self._best_places(targets, sources, self.forward)
        reverse = self._best_places(sources, targets, self.backward)
        return [(place, other) for other, place in enumerate(best) if place is not None and reverse[place] == other]

    def frequent(self, count: int) -> frozenset[str]:
        """Return the most frequent source words."""
        if count not in self._frequent:
            ranked = sorted(self.counts, key=lambda word: (-self.counts[word], word))
            self._frequent[count] = frozenset(ranked[:count])
        return self._frequent[count]

    def forms(self, source: str, target: str) -> list[str]:
        """Return the translations of a source word that share their stem with a target word, except itself."""
        found = self.forward.get(source.lower(), {})
        return [word for word in found if word != target.lower() and share_stem(word, target)]

    @staticmethod
    def _best_places(words: Sequence[str], others: Sequence[str], table: Table) -> list[int | None]:
        """Return the place of the word that each word most probably translates; of equal ones, the nearest."""
        places: list[int | None] = []
        for place, word in enumerate(words):
            scored = [
                (probability, -abs(number / len(others) - place / len(words)), number)
                for number, other in enumerate(others)
                if (probability := table.get(other, {}).get(word, 0.0)) > 0
            ]
            places.append(max(scored)[2] if scored else None)
        return places


def _number(words: Iterable[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(dict.fromkeys(words))}


def _table(pairs: Sequence[Any], source_ids: dict[str, int], target_ids: dict[str, int]) -> dict[str, dict[str, float]]:
    if not pairs:
        return {}
    lexicon = train_lexicon(pairs, source_size=len(source_ids), target_size=len(target_ids))
    kept = (lexicon.probability >= MIN_PROBABILITY) & (lexicon.source != lexicon.null)
    columns = (column[kept].tolist() for column in (lexicon.source, lexicon.target, lexicon.probability))
    names, others = list(source_ids), list(target_ids)
    table: dict[str, dict[str, float]] = {}
    for source, target, probability in zip(*columns, strict=True):
        table.setdefault(names[source], {})[others[target]] = probability
    return table
