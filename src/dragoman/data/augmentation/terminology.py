"""Terms written into training sources, so that a model learns to use the translations that it reads there.

A term of the source is followed by its translation, between reserved symbols (Dinu et al., 2019, with symbols in place
of source factors). The terms of a pair are drawn from its word alignment: phrases of the source whose words are aligned
to a phrase of the target and to no other words. A part of the translations is written in another form than that of the
target, so that the model learns to inflect them (Bergmanis and Pinnis, 2021). A part of the terms lacks its source, so
that the model has to read the translation (Ailem et al., 2021).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from pydantic import Field, PositiveInt

from dragoman.config import Config
from dragoman.data.terminology.annotation import Annotation, annotate_terms
from dragoman.data.terminology.word_lexicon import Link, WordLexicon
from dragoman.data.terminology.words import Word, split_words
from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS, remove_reserved_symbols

FREQUENT_WORDS = 30
"""Most frequent words of the corpus, which begin and end no term: articles, prepositions and the like; in a small
corpus a tenth of the words."""
_TRIES: Final = 4
"""Phrases that are drawn for each term, since not every phrase has a translation of its own."""


class TermConfig(Config):
    """Terms that are written into training sources."""

    share: float = Field(default=0.3, ge=0.0, le=1.0, description="probability that a source has terms")
    max_terms: PositiveInt = Field(default=3, description="most terms of a source")
    max_words: PositiveInt = Field(default=3, description="most words of a term")
    inflected: float = Field(
        default=0.2, ge=0.0, le=1.0, description="probability of another form of the word than that of the target"
    )

    masked: float = Field(
        default=0.3, ge=0.0, le=1.0, description="probability of a term without its source, only with its translation"
    )

    @property
    def symbols(self) -> tuple[str, ...]:
        """Reserved symbols that the vocabulary needs."""
        return TERM_SYMBOLS


@final
@dataclass(frozen=True)
class TermAnnotator:
    """Writes drawn terms into sources, by the word translations of the corpus."""

    config: TermConfig
    lexicon: WordLexicon

    def __call__(self, pair: tuple[str, str], generator: random.Random) -> tuple[str, str]:
        """Return the pair with terms in its source, or unchanged."""
        if generator.random() >= self.config.share:
            return pair
        source, target = (remove_reserved_symbols(text, TERM_SYMBOLS) for text in pair)
        words = split_words(source), split_words(target)
        links = self.lexicon.align(*([word.text for word in side] for side in words))
        found: list[Annotation] = []
        for _ in range(_TRIES * generator.randint(1, self.config.max_terms)):
            term = self._draw(words, links, target, generator)
            if term and all(term.end <= other.start or other.end <= term.start for other in found):
                found.append(term)
            if len(found) == self.config.max_terms:
                break
        return annotate_terms(source, found), target

    def _draw(
        self, words: tuple[list[Word], list[Word]], links: Sequence[Link], target: str, generator: random.Random
    ) -> Annotation | None:
        """Draw a phrase of the source, and return it with its translation if it has one."""
        if not words[0]:
            return None
        first = generator.randrange(len(words[0]))
        last = first + generator.randrange(self.config.max_words)
        span = aligned_span(links, first, last)
        if last >= len(words[0]) or span is None or span[1] - span[0] > self.config.max_words:
            return None
        source, translation = words[0][first : last + 1], words[1][span[0] : span[1] + 1]
        if any(self._is_function_word(word) for word in (source[0], source[-1])) or not all(
            word.is_word for word in translation
        ):
            return None
        text = target[translation[0].start : translation[-1].end]
        if len(source) == len(translation) == 1 and generator.random() < self.config.inflected:
            text = generator.choice(self.lexicon.forms(source[0].text, text) or [text])
        return Annotation(source[0].start, source[-1].end, text, generator.random() < self.config.masked)

    def _is_function_word(self, word: Word) -> bool:
        count = min(FREQUENT_WORDS, len(self.lexicon.counts) // 10)
        return not word.is_word or word.text.lower() in self.lexicon.frequent(count)


def aligned_span(links: Sequence[Link], first: int, last: int) -> tuple[int, int] | None:
    """Return the first and last target word of a phrase of the source; None unless it is consistent with the links.

    A phrase pair is consistent if both ends of the source are aligned, and no word of one side is aligned to a word
    outside of the other side (Koehn et al., 2003).
    """
    inside = [target for source, target in links if first <= source <= last]
    if not {first, last} <= {source for source, _ in links} or not inside:
        return None
    low, high = min(inside), max(inside)
    if any(low <= target <= high and not first <= source <= last for source, target in links):
        return None
    return low, high
