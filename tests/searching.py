"""Searches over networks of tensors, which take their arguments as tensors too."""

from typing import Any

from torch import Tensor

from dragoman import decoding
from dragoman.decoding import Hypothesis, Stepping
from dragoman.models.protocols import Stepper


def _over_tensors(road: Any) -> Any:
    def run(
        network: Stepper, memory: Any, *, limits: Tensor, first: Tensor | None = None, **asked: Any
    ) -> list[list[Hypothesis]]:
        held = Stepping.hold(memory)
        firsts = None if first is None else first.numpy()
        return road(Stepping(network), held, limits=limits.numpy(), first=firsts, **asked)

    return run


search, beam_search, greedy = (_over_tensors(road) for road in (decoding.search, decoding.beam_search, decoding.greedy))
