"""Cost of batches, linear fits of time and memory on it, and the batches that a profile trains on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Generic, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching.batch_streams import BatchStream
from dragoman.data.batching.token_budget_batches import Batch
from dragoman.tasks.build_training import TrainingSetup
from dragoman.training.distributed import WorkerGroup
from dragoman.training.step import B

MAX_SURVEYED = 400
"""Batches whose cost is computed to know the costs of an epoch."""
PARTS = (8, 4, 2, 1)
"""Numbers of parts that batches are cut into, to see how memory grows from an eighth of a batch to a whole one."""
GOLDEN_RATIO = 0.6180339887


class BatchCost(NamedTuple):
    """Sizes of a batch, or of the batches of a step together."""

    source_positions: float
    """Positions that the model reads, padding included."""
    target_positions: float
    """Positions that the decoder of an encoder-decoder model reads, padding included; otherwise 0."""
    attention_pairs: float
    """Positions times row length, which attention is linear in."""
    source_tokens: float
    target_tokens: float
    predictions: float
    """Tokens or labels that the loss sums over."""

    @property
    def positions(self) -> float:
        return self.source_positions + self.target_positions

    @property
    def features(self) -> tuple[float, ...]:
        """Return the features that the time of a step is linear in."""
        return self.source_positions, self.target_positions, self.attention_pairs


def batch_cost(batch: Any) -> BatchCost:
    """Return the cost of a batch of any task."""
    if isinstance(batch, Batch):
        (rows, source), target = batch.source.shape, batch.target.shape[1]
        tokens, targets = int(batch.source_lengths.sum()), batch.target_count
        return BatchCost(rows * source, rows * target, rows * (source**2 + target**2), tokens, targets, targets)
    rows, width = batch.tokens.shape
    tokens = int(batch.lengths.sum())
    return BatchCost(rows * width, 0.0, rows * width**2, tokens, tokens, batch.target_count)


def mean_cost(costs: Sequence[BatchCost], *, per: float = 1) -> BatchCost:
    """Return the mean of some costs, divided by `per`."""
    return BatchCost(*(sum(numbers) / len(costs) / per for numbers in zip(*costs, strict=True)))


@final
@dataclass(frozen=True)
class LinearModel:
    """Linear function of some features."""

    intercept: float
    slopes: tuple[float, ...]

    def predict(self, features: Sequence[float]) -> float:
        return self.intercept + sum(slope * feature for slope, feature in zip(self.slopes, features, strict=True))


def fit_nonnegative(features: Sequence[Sequence[float]], values: Sequence[float]) -> LinearModel:
    """Fit a linear model without negative coefficients by least squares.

    Time and memory do not decrease with their causes. There are few features, so every subset is tried.
    """
    table = np.column_stack([np.ones(len(values)), np.asarray(features, dtype=np.float64)])
    largest = np.abs(table).max(axis=0)
    scales = np.where(largest > 1e-12, largest, np.inf)  # drops features that are always zero
    scaled, expected = table / scales, np.asarray(values, dtype=np.float64)
    best: NDArray[Any] = np.zeros(table.shape[1])
    smallest = float(expected @ expected)
    for count in range(1, table.shape[1] + 1):
        for subset in combinations(range(table.shape[1]), count):
            found = np.linalg.lstsq(scaled[:, list(subset)], expected, rcond=None)[0]
            if (found < 0).any():
                continue
            coefficients = np.zeros(table.shape[1])
            coefficients[list(subset)] = found
            error = float(np.square(scaled @ coefficients - expected).sum())
            if error < smallest * (1 - 1e-9):
                best, smallest = coefficients, error
    intercept, *slopes = (best / scales).tolist()
    return LinearModel(intercept, tuple(slopes))


class BatchPart(NamedTuple):
    """First of `parts` parts of a batch; `batch` is its index in the epoch."""

    batch: int
    parts: int


@final
class SelectedBatches(Generic[B]):
    """Batch stream that repeats selected batches of another stream's first epoch; implements `BatchStream`."""

    def __init__(self, stream: BatchStream[B], selected: Sequence[BatchPart]) -> None:
        self._stream, self._selected = stream, list(selected)
        self._next = 0

    @property
    def position(self) -> dict[str, int]:
        return {"epoch": 0, "batch": self._next}

    def seek(self, position: Mapping[str, int]) -> None:
        self._next = position["batch"]

    def batches_per_epoch(self) -> int:
        return len(self._selected)

    def __next__(self) -> B:
        part = self._selected[self._next % len(self._selected)]
        self._next += 1
        return read_part(self._stream, part)


def use_batches(setup: TrainingSetup[Any], steps: Sequence[Sequence[Sequence[int]]]) -> TrainingSetup[Any]:
    """Replace the batches of a training by the parts of batches, perhaps from JSON, selected for each step."""
    stream: BatchStream[Any] = SelectedBatches(setup.stream, [BatchPart(*part) for step in steps for part in step])
    return replace(setup, stream=stream)


def read_part(stream: BatchStream[B], part: BatchPart) -> B:
    stream.seek({"epoch": 0, "batch": part.batch})
    return WorkerGroup(0, part.parts).own_part(next(stream))[0]


def survey_batches(stream: BatchStream[B]) -> dict[int, BatchCost]:
    """Return the cost of the batches of the first epoch by index; of a large epoch, of evenly spaced batches."""
    count = stream.batches_per_epoch()
    chosen = np.unique(np.linspace(0, count - 1, num=min(count, MAX_SURVEYED)).round().astype(int)).tolist()
    return {index: batch_cost(read_part(stream, BatchPart(index, 1))) for index in chosen}


def select_batches(
    costs: Mapping[int, BatchCost], *, grad_accumulation: int, steps: int, seed: int
) -> list[list[BatchPart]]:
    """Select the batches of each profiled step, from the smallest part of the largest batch to whole batches.

    Whole batches begin with the largest ones, for the peak memory; `steps` of all sizes follow, for the time.
    """
    largest = _largest_batches(costs)
    selected = [[BatchPart(largest[0], parts)] * grad_accumulation for parts in PARTS[:-1] for _ in range(2)]
    selected += [[BatchPart(index, 1)] * grad_accumulation for index in largest]
    by_size = sorted(costs, key=lambda index: (costs[index].positions, costs[index].attention_pairs, index))
    offset = np.random.default_rng(seed).random()
    # Multiples of the golden ratio spread any number of batches evenly over the sizes.
    fractions = (offset + np.arange(steps * grad_accumulation) * GOLDEN_RATIO) % 1.0
    spread = [BatchPart(by_size[int(fraction * len(by_size))], 1) for fraction in fractions]
    return selected + [spread[n : n + grad_accumulation] for n in range(0, len(spread), grad_accumulation)]


def _largest_batches(costs: Mapping[int, BatchCost]) -> list[int]:
    """Return the batches with the most positions, predictions and attention, which may need the most memory."""
    names = ("positions", "predictions", "attention_pairs")
    largest = (max((getattr(cost, name), -index) for index, cost in costs.items()) for name in names)
    return list(dict.fromkeys(-index for _, index in largest))
