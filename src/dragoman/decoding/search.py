"""Entry point of search: beam search, or greedy search for a beam of one."""

import numpy as np

from dragoman.decoding.beam_search import BeamSearch
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.greedy import GreedySearch
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.search_protocol import Search, run_search
from dragoman.models.protocols import Backend, M, S
from dragoman.typing import Int


def search(
    model: Backend[M, S],
    memory: M,
    *,
    limits: Int[np.ndarray, " batch"],
    config: DecodingConfig,
    start_tokens: Int[np.ndarray, " batch"] | None = None,
) -> list[list[Hypothesis]]:
    """Return the `config.n_best` best hypotheses for each sentence of the memory, best first.

    `limits` are the most output tokens of each sentence, end symbol not counted. `start_tokens` are the tokens that
    precede the outputs (the last ones of prompts) and are not part of them; by default the begin symbol. Raises
    RunError when logits are not finite.
    """
    return run_search(build_search(model, config=config), memory, limits=limits, start_tokens=start_tokens)


def build_search(model: Backend[M, S], *, config: DecodingConfig) -> Search[M]:
    """Build the search of a configuration, without sentences."""
    if config.beam_size == 1:
        return GreedySearch(model, config=config)
    return BeamSearch(model, config=config)
