"""The search that settings ask for."""

from dragoman.decoding.beam import beam_search
from dragoman.decoding.config import SearchSettings
from dragoman.decoding.greedy import greedy
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.interfaces import M, S, Stepper, Symbols
from dragoman.shapes import Lengths


def search(
    model: Stepper[M, S], memory: M, *, limits: Lengths, settings: SearchSettings, symbols: Symbols
) -> list[list[Hypothesis]]:
    """The `settings.best` best hypotheses for each sentence of the memory, best first; greedy with a beam of one.

    `limits` are the most tokens of an output of each sentence, the end symbol not counted. Raises RunError when logits
    are not numbers.
    """
    road = greedy if settings.beam == 1 else beam_search
    return road(model, memory, limits=limits, settings=settings, symbols=symbols)
