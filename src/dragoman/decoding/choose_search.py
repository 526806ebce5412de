"""Entry point of search: beam search, greedy search for a beam of one, or sampling."""

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np

from dragoman.array_types import Int
from dragoman.decoding.beam_search import BeamSearch
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.decoding.greedy_search import SingleOutputSearch, greedy_search, sampling_search
from dragoman.decoding.hypothesis import Hypothesis, OutputStart

Search = BeamSearch[Any, Any] | SingleOutputSearch[Any, Any]
"""Sentences that take their steps together; the result of one depends on the others by rounding of the backend only."""


def build_search(model: Any, *, config: DecodingConfig | SamplingConfig) -> Search:
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
    memory: Any,
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
    search: Search, memory: Any, *, limits: Int[np.ndarray, " batch"], starts: Sequence[OutputStart] | None = None
) -> list[list[Hypothesis]]:
    """Run a search to its end and return the hypotheses of each sentence of a memory."""
    if len(limits) == 0:
        return []
    ids = search.add(memory, limits=limits, starts=starts or [OutputStart(key=(row, 0)) for row in range(len(limits))])
    found: dict[int, list[Hypothesis]] = {}
    while len(search) > 0:
        found |= search.step()
    return [found[sentence_id] for sentence_id in ids]
