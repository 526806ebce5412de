"""What a network that gives its logits as arrays of numpy knows of outputs that are there already."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import Normalisation
from dragoman.decoding.greedy_state import hypothesis_of
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.backends.protocol import Ids
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Float, Int

SYMBOLS = Symbols()


@runtime_checkable
class GivesLogits(Protocol):
    """A network from source to target that tells all logits of a step."""

    @property
    def maximum_length(self) -> int | None:
        """As `runtime.network.Translating` has it."""
        ...

    def encode(self, sources: Sequence[Ids], trees: Sequence[Heads] = ()) -> Any:
        """The memory of sources, given without end symbols."""
        ...

    def start(self, memory: Any, *, beam: int) -> Any:
        """The state before the first step."""
        ...

    def step(
        self, tokens: Int[np.ndarray, "batch beam"], memory: Any, state: Any
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], Any]:
        """All logits, and the state that comes next."""
        ...


def score(
    network: GivesLogits,
    sources: Sequence[Ids],
    outputs: Sequence[Ids],
    *,
    normalisation: Normalisation,
    trees: Sequence[Heads] = (),
) -> list[Hypothesis]:
    """As `runtime.network.Translating.score`, step by step."""
    ended = [[*output, SYMBOLS.end] for output in outputs]
    expected = rectangle_of(ended, pad=SYMBOLS.pad)
    columns = [
        _log_probs_of(expected[:, place], logits)
        for place, logits in enumerate(logits_of(network, network.encode(sources, trees), outputs))
    ]
    rows = np.stack(columns, axis=1).tolist()
    return [
        hypothesis_of(list(zip(row, numbers, strict=False)), normalisation, symbols=SYMBOLS)
        for row, numbers in zip(ended, rows, strict=True)
    ]


def logits_of(
    network: GivesLogits, memory: Any, outputs: Sequence[Ids]
) -> Iterator[Float[np.ndarray, "batch vocabulary"]]:
    """Step by step, those of what follows the tokens of the outputs."""
    state = network.start(memory, beam=1)
    begun = rectangle_of([[SYMBOLS.begin, *output] for output in outputs], pad=SYMBOLS.pad)
    for place in range(begun.shape[1]):
        logits, state = network.step(begun[:, place : place + 1], memory, state)
        yield logits[:, 0]


def normalisers(logits: Float[np.ndarray, "*rows vocabulary"]) -> Float[np.ndarray, "*rows"]:
    """What is to be taken off the logits of each row so that they are log-probabilities."""
    most: np.ndarray = logits.max(axis=-1)
    return most + np.log(np.exp(logits - most[..., None]).sum(axis=-1))


def rectangle_of(rows: Sequence[Ids], *, pad: int) -> Int[np.ndarray, "batch places"]:
    """Ids padded after them."""
    padded = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int32)
    for empty, row in zip(padded, rows, strict=True):
        empty[: len(row)] = row
    return padded


def _log_probs_of(
    symbols: Int[np.ndarray, " batch"], logits: Float[np.ndarray, "batch vocabulary"]
) -> Float[np.ndarray, " batch"]:
    return logits[np.arange(len(symbols)), symbols] - normalisers(logits)
