"""Entry point of search: beam search, greedy search for a beam of one, or sampling."""

from collections.abc import Sequence
from typing import Any, Protocol, assert_never, runtime_checkable

import numpy as np

from dragoman.decoding.beam_search import BeamSearch
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.decoding.greedy_and_sampling import greedy_search, sampling_search
from dragoman.decoding.hypothesis import Hypothesis, OutputStart
from dragoman.models.protocols import M, M_contra
from dragoman.typing import Int


@runtime_checkable
class Search(Protocol[M_contra]):
    """Sentences of any length that take their steps together; the result of one does not depend on the others."""

    def __len__(self) -> int:
        """Number of active sentences."""
        ...

    def add(self, memory: M_contra, *, limits: Int[np.ndarray, " batch"], starts: Sequence[OutputStart]) -> list[int]:
        """Add sentences and return their ids; the id of a sentence that has left may be used again.

        `limits` are the most output tokens of each sentence, end symbol not counted.
        """
        ...

    def step(self) -> dict[int, list[Hypothesis]]:
        """Extend every hypothesis by one token and return the hypotheses of the sentences completed, by their ids.

        Requires an active sentence. Raises RunError when logits are not finite.
        """
        ...

    def remove(self, sentence_ids: Sequence[int]) -> None:
        """Remove sentences before they are complete."""
        ...


def build_search(model: Any, *, config: DecodingConfig | SamplingConfig) -> Search[Any]:
    """Build the search of a configuration, without sentences; the model is a `Backend` or a `SamplingBackend`."""
    match config:
        case SamplingConfig():
            return sampling_search(model, config=config)
        case DecodingConfig(beam_size=1):
            return greedy_search(model, config=config)
        case DecodingConfig():
            return BeamSearch(model, config=config)
        case _:
            assert_never(config)


def search(
    model: Any,
    memory: M,
    *,
    limits: Int[np.ndarray, " batch"],
    config: DecodingConfig | SamplingConfig,
    starts: Sequence[OutputStart] | None = None,
) -> list[list[Hypothesis]]:
    """Return the `config.n_best` best hypotheses for each sentence of the memory, best first, or one sample.

    `limits` are the most output tokens of each sentence, end symbol not counted. By default, outputs follow the begin
    symbol, and their rows are the keys of their random numbers. Raises RunError when logits are not finite.
    """
    return run_search(build_search(model, config=config), memory, limits=limits, starts=starts)


def run_search(
    search: Search[M],
    memory: M,
    *,
    limits: Int[np.ndarray, " batch"],
    starts: Sequence[OutputStart] | None = None,
) -> list[list[Hypothesis]]:
    """Run a search to its end and return the hypotheses of each sentence of a memory."""
    if len(limits) == 0:
        return []
    ids = search.add(memory, limits=limits, starts=starts or [OutputStart(key=(row, 0)) for row in range(len(limits))])
    found: dict[int, list[Hypothesis]] = {}
    while len(search) > 0:
        found |= search.step()
    return [found[sentence_id] for sentence_id in ids]
