"""Translation memory: translations of texts that were translated before, equal or similar ones."""

import re
from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import NamedTuple, final

CANDIDATES = 30
"""Number of texts, with the most words in common, that are compared with a text in full."""
COMMON = 0.05
"""Share of the texts above which a word says little about a text and is left out of the search."""
MAX_COMPARED = 2_000
"""Characters of the longest text that similar ones are searched for: a comparison takes quadratic time."""
_WORD = re.compile(r"\w+")


class Match(NamedTuple):
    """Text of a memory with its translation."""

    source: str
    target: str
    similarity: float
    """Ratio of equal characters (Ratcliff and Obershelp), 1 for an equal text."""


@final
class TranslationMemory:
    """Pairs of a source and its translation; of equal sources, the last pair counts."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._targets = {_normal(source): target for source, target in pairs if source.strip() and target.strip()}
        self._sources = list(self._targets)
        self._by_word: dict[str, list[int]] | None = None

    def __len__(self) -> int:
        return len(self._targets)

    def find(self, source: str, threshold: float = 1.0) -> Match | None:
        """Return the pair of an equal source, or else of the most similar one, if its similarity is high enough.

        Differences in white space do not count.
        """
        source = _normal(source)
        if (target := self._targets.get(source)) is not None:
            return Match(source, target, 1.0)
        if threshold >= 1.0 or len(source) > MAX_COMPARED:
            return None
        best: Match | None = None
        for candidate in self._candidates(source, threshold):
            matcher = SequenceMatcher(None, candidate, source, autojunk=False)
            lowest = threshold if best is None else best.similarity
            if matcher.real_quick_ratio() >= lowest and matcher.quick_ratio() >= lowest:
                similarity = matcher.ratio()
                if similarity >= threshold and (best is None or similarity > best.similarity):
                    best = Match(candidate, self._targets[candidate], similarity)
        return best

    def _candidates(self, source: str, threshold: float) -> list[str]:
        """Return the texts of similar length that share the most words with a text."""
        counts: Counter[int] = Counter()
        index = self._index()
        for word in {*_WORD.findall(source.casefold())}:
            found = index.get(word, ())
            if len(found) <= max(100, COMMON * len(self._sources)):
                counts.update(found)
        longest = min(MAX_COMPARED, len(source) * (2 - threshold) / threshold if threshold else MAX_COMPARED)
        near = (self._sources[number] for number, _ in counts.most_common(10 * CANDIDATES))
        return [text for text in near if len(text) <= longest][:CANDIDATES]

    def _index(self) -> dict[str, list[int]]:
        if self._by_word is None:
            self._by_word = {}
            for number, source in enumerate(self._sources):
                for word in {*_WORD.findall(source.casefold())}:
                    self._by_word.setdefault(word, []).append(number)
        return self._by_word


def _normal(text: str) -> str:
    return " ".join(text.split())
