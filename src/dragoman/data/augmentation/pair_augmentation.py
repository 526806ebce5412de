"""All augmentation of a training pair: noise, then marked parts."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from dragoman.data.augmentation.config import AugmentationConfig
from dragoman.data.augmentation.noise import NoiseConfig, add_noise
from dragoman.data.augmentation.placeholders import PlaceholderAugmenter
from dragoman.data.augmentation.terminology import TermAnnotator
from dragoman.data.document_context import last_sentences, replace_last_sentence
from dragoman.data.terminology.word_lexicon import WordLexicon

Pair = tuple[str, str]


@final
@dataclass(frozen=True)
class PairAugmentation:
    """Function from a training pair to that of an epoch."""

    noise: NoiseConfig | None = None
    config: AugmentationConfig | None = None
    corpus: Iterable[Pair] = ()
    """Training pairs, which word translations are learned from where parts are marked."""

    @property
    def enabled(self) -> bool:
        """Return whether any pair changes."""
        has_noise = self.noise is not None and self.noise.enabled
        return has_noise or (self.config is not None and bool(self.config.symbols))

    def facts(self) -> dict[str, Any]:
        """Return what the pairs of an epoch depend on, besides the corpus."""
        parts = {"noise": self.noise, "augmentation": self.config}
        return {name: part.model_dump(mode="json") for name, part in parts.items() if part is not None}

    def __call__(self, pair: Pair, *, seed: int, epoch: int, row: int) -> Pair:
        """Return the pair of an epoch, with the same document context."""
        last = self._augment(last_sentences(pair), seed=seed, epoch=epoch, row=row)
        source, target = map(replace_last_sentence, pair, last)
        return source, target

    def _augment(self, pair: Pair, *, seed: int, epoch: int, row: int) -> Pair:
        if self.noise is not None:
            pair = add_noise(pair, self.noise, seed=seed, epoch=epoch, row=row)
        for name, step in self._steps.items():
            # A generator for each step, so that changed settings of one leave the draws of others unchanged.
            pair = step(pair, random.Random(f"{seed}/{epoch}/{row}/{name}"))  # noqa: S311  # not for secrets
        return pair

    @cached_property
    def _steps(self) -> Mapping[str, Callable[[Pair, random.Random], Pair]]:
        """Functions that mark parts: placeholders first, since they are no words of terms."""
        steps: dict[str, Callable[[Pair, random.Random], Pair]] = {}
        if self.config is None or not self.config.symbols:
            return steps
        lexicon = WordLexicon.train(map(last_sentences, self.corpus))
        if self.config.placeholders is not None:
            steps["placeholders"] = PlaceholderAugmenter(self.config.placeholders, lexicon)
        if self.config.terminology is not None:
            steps["terms"] = TermAnnotator(self.config.terminology, lexicon)
        return steps
