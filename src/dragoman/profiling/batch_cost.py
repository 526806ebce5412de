"""What a batch weighs, and the time and memory of an update as they follow from that."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching.token_batches import Batch
from dragoman.typing import Float


@final
@dataclass(frozen=True)
class Load:
    """Of one batch, or of the batches of an update together."""

    source_places: float
    """Places that the network reads, padding included."""
    target_places: float
    """Places that a decoder beside it reads; 0 where there is none."""
    squares: float
    """Places times the width of their rows, which is what attention grows with."""
    read: float
    """Tokens of the sources, padding aside."""
    written: float
    """Tokens of the targets, padding aside."""
    predictions: float
    """What the loss is the sum over."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __truediv__(self, parts: float) -> Self:
        return type(self)(*(number / parts for number in astuple(self)))

    @property
    def places(self) -> float:
        """All of them."""
        return self.source_places + self.target_places

    @property
    def features(self) -> tuple[float, ...]:
        """What the time of an update is linear in, beside a constant."""
        return self.source_places, self.target_places, self.squares


def load_of(batch: Any) -> Load:
    """The load of a batch of any task."""
    if isinstance(batch, Batch):
        (rows, source), target = batch.source.shape, batch.target.shape[1]
        read, written = int(batch.source_lengths.sum()), batch.target_count
        return Load(rows * source, rows * target, rows * (source**2 + target**2), read, written, written)
    rows, width = batch.tokens.shape
    tokens = int(batch.lengths.sum())
    return Load(rows * width, 0.0, rows * width**2, tokens, tokens, batch.target_count)


def mean_load(loads: Sequence[Load]) -> Load:
    """The mean of several."""
    total = loads[0]
    for one in loads[1:]:
        total = total + one
    return total / len(loads)


@final
@dataclass(frozen=True)
class Line:
    """A number that grows with its causes: a constant, and so much for each."""

    constant: float
    slopes: tuple[float, ...]

    def at(self, causes: Sequence[float]) -> float:
        """The number for these causes."""
        return self.constant + sum(slope * cause for slope, cause in zip(self.slopes, causes, strict=True))


def fitted(causes: Sequence[Sequence[float]], numbers: Sequence[float]) -> Line:
    """The line with no negative coefficient that comes closest (least squares, each number as important as another).

    A time or a memory does not shrink with what causes it. There are few causes, so every set of them is tried whole.
    """
    table = np.column_stack([np.ones(len(numbers)), np.asarray(causes, dtype=np.float64)])
    largest = np.abs(table).max(axis=0)
    scales = np.where(largest > 1e-12, largest, np.inf)  # what is never there is no cause
    wanted = np.asarray(numbers, dtype=np.float64)
    best, least = np.zeros(table.shape[1]), float(wanted @ wanted)
    for count in range(1, table.shape[1] + 1):
        for chosen in combinations(range(table.shape[1]), count):
            found = _least_squares((table / scales)[:, list(chosen)], wanted)
            if (found < 0).any():
                continue
            whole = np.zeros(table.shape[1])
            whole[list(chosen)] = found
            fault = float(np.square(table / scales @ whole - wanted).sum())
            if fault < least * (1 - 1e-9):
                best, least = whole, fault
    constant, *slopes = (best / scales).tolist()
    return Line(constant, tuple(slopes))


def _least_squares(table: Float[np.ndarray, "rows causes"], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.linalg.lstsq(table, wanted, rcond=None)[0]
    return found
