"""How long a network takes to write, step by step, and what that is of what the machine does at most."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.search import build_search
from dragoman.models.protocols import Backend
from dragoman.typing import Int


class Step(NamedTuple):
    """A step of so many sentences."""

    sentences: int
    seconds: float


@dataclass(frozen=True)
class Decoding:
    """Sentences that were written together: the seconds of reading what they go on from, and the steps."""

    read: float
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        return self.read + self.stepping

    @property
    def stepping(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def tokens(self) -> int:
        """Tokens of all outputs, end symbols included; those of beams that were cut do not count."""
        return sum(step.sentences for step in self.steps)


def timed(
    read: Callable[[], tuple[Backend[Any, Any], Any]],
    *,
    limits: Int[np.ndarray, " batch"],
    settings: DecodingConfig,
    first: Int[np.ndarray, " batch"] | None,
) -> Decoding:
    """Search for the outputs of what `read` gives, the network and its memory of some sentences."""
    began = time.perf_counter()
    network, memory = read()
    search = build_search(network, config=settings)
    search.add(memory, limits=limits, start_tokens=first)
    ready, steps = time.perf_counter(), []
    before = ready
    while sentences := len(search):
        search.step()
        now = time.perf_counter()
        steps.append(Step(sentences, now - before))
        before = now
    return Decoding(ready - began, tuple(steps))


@dataclass(frozen=True)
class Costs:
    """What a step takes, whoever computes it."""

    weight_bytes: int
    """Read once a step, however many rows there are."""
    place_bytes: int
    """Of the keys and values of a place that is looked at."""
    operations: int
    """For each hypothesis, what it looks at aside."""


@dataclass(frozen=True)
class Machine:
    """What it does at most, a second."""

    bytes: float
    operations: float


@dataclass(frozen=True)
class Roofline:
    """What some steps move and compute (Williams et al., 2009), and their share of what the machine does at most."""

    bytes_per_token: float
    operations_per_token: float
    bandwidth_share: float
    product_share: float

    @property
    def share(self) -> float:
        """Of the speed that whichever is scarcer allows."""
        return max(self.bandwidth_share, self.product_share)

    @property
    def bound(self) -> str:
        return "memory" if self.bandwidth_share >= self.product_share else "products"


def roofline(decoding: Decoding, costs: Costs, machine: Machine, *, beam: int, places: float) -> Roofline:
    """That of the steps of a decoding, whose sentences go on from so many `places` on average.

    Keys and values of these are read once for all beams of a sentence, those of an output for each.
    """
    moved = sum(
        costs.weight_bytes + costs.place_bytes * step.sentences * (beam * age + places)
        for age, step in enumerate(decoding.steps, start=1)
    )
    computed = costs.operations * beam * decoding.tokens
    return Roofline(
        bytes_per_token=moved / decoding.tokens,
        operations_per_token=computed / decoding.tokens,
        bandwidth_share=moved / decoding.stepping / machine.bytes,
        product_share=computed / decoding.stepping / machine.operations,
    )
