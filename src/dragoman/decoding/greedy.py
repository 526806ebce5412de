"""Greedy search: always the most probable symbol."""

from collections.abc import Sequence
from typing import Generic, final

import numpy as np

from dragoman.decoding.beam_candidates import IMPOSSIBLE, ask
from dragoman.decoding.config import SearchSettings
from dragoman.decoding.greedy_state import Rows, Sentences
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.search_protocol import to_the_end
from dragoman.models.search_protocols import M, S, Searched
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Int


def greedy(
    model: Searched[M, S],
    memory: M,
    *,
    limits: Int[np.ndarray, " batch"],
    settings: SearchSettings,
    symbols: Symbols,
    first: Int[np.ndarray, " batch"] | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence of the memory, as `beam_search` with a beam of one finds it.

    `limits` are the most tokens of each output, the end symbol not counted. `first` are the tokens that the outputs go
    on from, the begin symbol without it. Raises RunError when logits are not numbers.
    """
    return to_the_end(GreedySearch(model, settings=settings, symbols=symbols), memory, limits=limits, first=first)


@final
class GreedySearch(Generic[M, S]):
    """Implements `progress.Search`: `greedy` of sentences that come and go."""

    def __init__(self, model: Searched[M, S], *, settings: SearchSettings, symbols: Symbols) -> None:
        self._model = model
        self._settings = settings
        self._symbols = symbols
        self._rows = Rows(model, settings=settings, symbols=symbols)

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, memory: M, *, limits: Int[np.ndarray, " batch"], first: Int[np.ndarray, " batch"] | None = None
    ) -> list[int]:
        return self._rows.add(memory, limits=limits, first=first)

    def step(self) -> dict[int, list[Hypothesis]]:
        return one_step(self._model, self._rows, settings=self._settings, symbols=self._symbols)

    def drop(self, names: Sequence[int]) -> None:
        self._rows.drop(names)


def one_step(
    model: Searched[M, S], rows: Rows[M, S], *, settings: SearchSettings, symbols: Symbols
) -> dict[int, list[Hypothesis]]:
    """Every output one symbol longer; what was found for those that are over with it."""
    some = rows.open
    log_probs, ids, state = ask(
        model,
        some.tokens[:, None],
        some.memory,
        some.state,
        width=1,
        ages=some.ages,
        settings=settings,
        symbols=symbols,
    )
    tokens, log_probs = ids[:, 0, 0], log_probs[:, 0, 0]
    ends = tokens == symbols.end
    cut = ((some.limits <= some.ages) & ~ends) | (log_probs == IMPOSSIBLE)
    columns = zip(*(part.tolist() for part in (some.names, tokens, log_probs, cut)), strict=True)
    for name, token, log_prob, stop in columns:
        if not stop:
            rows.write(name, token, log_prob)
    after = Sentences(some.names, some.ages + 1, some.limits, tokens, some.memory, state)
    return rows.without(after, cut | ends)
