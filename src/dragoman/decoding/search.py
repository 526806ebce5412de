"""The search that settings ask for."""

import numpy as np

from dragoman.decoding.beam_search import BeamSearch
from dragoman.decoding.config import SearchSettings
from dragoman.decoding.drafting import Drafting, DraftingSearch
from dragoman.decoding.greedy import GreedySearch
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.search_protocol import Search, to_the_end
from dragoman.errors import ConfigError
from dragoman.models.search_protocols import M, S, Searched
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Int


def search(
    model: Searched[M, S],
    memory: M,
    *,
    limits: Int[np.ndarray, " batch"],
    settings: SearchSettings,
    symbols: Symbols,
    first: Int[np.ndarray, " batch"] | None = None,
) -> list[list[Hypothesis]]:
    """The `settings.best` best hypotheses for each sentence of the memory, best first; greedy with a beam of one.

    `limits` are the most tokens of an output of each sentence, the end symbol not counted. `first` are the tokens that
    the outputs go on from (the last ones of prompts), which are no part of them; the begin symbol without it. Raises
    RunError when logits are not numbers.
    """
    return to_the_end(search_of(model, settings=settings, symbols=symbols), memory, limits=limits, first=first)


def search_of(model: Searched[M, S], *, settings: SearchSettings, symbols: Symbols) -> Search[M]:
    """The search in progress, without a sentence yet. Raises ConfigError where a network with drafts has a beam."""
    if isinstance(model, Drafting):
        if settings.beam > 1:
            raise ConfigError(
                f"beam = {settings.beam}: drafts are guesses about one output, that of greedy search; choose a beam "
                "of 1, or leave the draft out"
            )
        return DraftingSearch(model, settings=settings, symbols=symbols)
    if settings.beam == 1:
        return GreedySearch(model, settings=settings, symbols=symbols)
    return BeamSearch(model, settings=settings, symbols=symbols)
