"""Reserved symbols in training pairs, so that a model learns to carry placeholders into its translations.

A word of the source and the word that translates it are replaced by the same symbol; few texts have placeholders of
their own, and words show the model where the translation of a placeholder belongs. Other symbols are inserted at the
beginning or the end of both sides, where labels and values of user interfaces stand.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from pydantic import Field

from dragoman.config import Config
from dragoman.data.terminology.word_lexicon import WordLexicon
from dragoman.data.terminology.words import Word, split_words
from dragoman.data.tokenizers.reserved_symbols import PLACEHOLDER_SYMBOLS, remove_reserved_symbols

FREQUENT_WORDS = 30
"""Most frequent words of the corpus, which stay as they are: articles, prepositions and the like; in a small corpus a
tenth of the words."""
_INSERTED: Final = ("{0} {1}", "{0} : {1}", "{1} {0}", "{1} ( {0} )", '{1} " {0} "')
"""Places of an inserted symbol {0} next to a text {1}, with separate punctuation marks as in tokenized text."""
_INSERTED_PLAIN: Final = ("{0} {1}", "{0}: {1}", "{1} {0}", "{1} ({0})", '{1} "{0}"')
"""The same places in text with its punctuation attached to words."""
_FINAL: Final = ".!?"


class PlaceholderConfig(Config):
    """Reserved symbols in place of words, which teach a model to carry placeholders."""

    share: float = Field(default=0.3, ge=0.0, le=1.0, description="probability that a pair has placeholders")
    max_placeholders: int = Field(
        default=3, ge=1, le=len(PLACEHOLDER_SYMBOLS), description="most placeholders of a pair"
    )
    inserted: float = Field(
        default=0.2, ge=0.0, le=1.0, description="probability of another one at the beginning or the end of such a pair"
    )

    @property
    def symbols(self) -> tuple[str, ...]:
        """Reserved symbols that the vocabulary needs."""
        return PLACEHOLDER_SYMBOLS


@final
@dataclass(frozen=True)
class PlaceholderAugmenter:
    """Writes reserved symbols into both sides of pairs, by the word translations of the corpus."""

    config: PlaceholderConfig
    lexicon: WordLexicon

    def __call__(self, pair: tuple[str, str], generator: random.Random) -> tuple[str, str]:
        """Return the pair with as many symbols on both sides, each once, or unchanged."""
        if generator.random() >= self.config.share:
            return pair
        texts = [remove_reserved_symbols(text, PLACEHOLDER_SYMBOLS) for text in pair]
        words = [split_words(text) for text in texts]
        links = self._links(*words)
        generator.shuffle(links)
        chosen = links[: generator.randint(1, self.config.max_placeholders)]
        symbols = generator.sample(PLACEHOLDER_SYMBOLS, len(PLACEHOLDER_SYMBOLS))
        for side in (0, 1):
            spans = [(words[side][link[side]], symbol) for link, symbol in zip(chosen, symbols, strict=False)]
            texts[side] = _replace(texts[side], spans)
        if len(chosen) < len(symbols) and (not chosen or generator.random() < self.config.inserted):
            return _insert(texts, symbols[len(chosen)], generator)
        return texts[0], texts[1]

    def _links(self, source: Sequence[Word], target: Sequence[Word]) -> list[tuple[int, int]]:
        """Return the words that may be replaced: aligned ones, and equal ones that occur once on each side."""
        counts = [Counter(word.text for word in side) for side in (source, target)]
        equal = [
            (place, other)
            for place, first in enumerate(source)
            for other, second in enumerate(target)
            if first.text == second.text and all(count[first.text] == 1 for count in counts)
        ]
        taken = ({place for place, _ in equal}, {other for _, other in equal})
        aligned = self.lexicon.align([word.text for word in source], [word.text for word in target])
        more = [link for link in aligned if link[0] not in taken[0] and link[1] not in taken[1]]
        frequent = self.lexicon.frequent(min(FREQUENT_WORDS, len(self.lexicon.counts) // 10))
        return [
            (place, other)
            for place, other in (*equal, *more)
            if source[place].is_word and target[other].is_word and source[place].text.lower() not in frequent
        ]


def _replace(text: str, spans: Sequence[tuple[Word, str]]) -> str:
    """Return the text with symbols in place of words."""
    for word, symbol in sorted(spans, key=lambda one: -one[0].start):
        text = text[: word.start] + symbol + text[word.end :]
    return text


def _insert(texts: Sequence[str], symbol: str, generator: random.Random) -> tuple[str, str]:
    """Return the texts with a symbol at the same end of both, before a final punctuation mark."""
    choice = generator.randrange(len(_INSERTED))
    source, target = (_insert_into(text.strip(), symbol, choice) for text in texts)
    return source, target


def _insert_into(text: str, symbol: str, choice: int) -> str:
    end = text[-1:] if text[-1:] in _FINAL else ""
    body = text.removesuffix(end)
    is_tokenized = body.endswith(" ")
    pattern = (_INSERTED if is_tokenized else _INSERTED_PLAIN)[choice]
    return pattern.format(symbol, body.rstrip()) + (" " + end if end and is_tokenized else end)
