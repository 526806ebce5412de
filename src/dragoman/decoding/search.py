"""The search that settings ask for."""

from jaxtyping import Int
from torch import Tensor

from dragoman.decoding.beam import beam_search
from dragoman.decoding.config import SearchSettings
from dragoman.decoding.greedy import greedy
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.interfaces import M, S, Stepper, Symbols
from dragoman.shapes import Lengths


def search(
    model: Stepper[M, S],
    memory: M,
    *,
    limits: Lengths,
    settings: SearchSettings,
    symbols: Symbols,
    first: Int[Tensor, " batch"] | None = None,
) -> list[list[Hypothesis]]:
    """The `settings.best` best hypotheses for each sentence of the memory, best first; greedy with a beam of one.

    `limits` are the most tokens of an output of each sentence, the end symbol not counted. `first` are the tokens that
    the outputs go on from (the last ones of prompts), which are no part of them; the begin symbol without it. Raises
    RunError when logits are not numbers.
    """
    road = greedy if settings.beam == 1 else beam_search
    return road(model, memory, limits=limits, settings=settings, symbols=symbols, first=first)
