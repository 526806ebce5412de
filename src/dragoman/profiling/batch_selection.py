"""Which batches of an epoch are looked at, so that a few updates tell of all, and a stream that gives these."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, final

import numpy as np

from dragoman.data.batching.epochs import BatchStream
from dragoman.profiling.batch_cost import Load, load_of
from dragoman.tasks.base import TrainingSetup
from dragoman.training.distributed import WorkerGroup
from dragoman.training.step import B

MOST_SURVEYED = 400
"""Batches that are made to know what the batches of an epoch weigh."""
SHARES = (8, 4, 2, 1)
"""Parts that batches are cut into, to see how memory grows: first an eighth of each, in the end the whole."""


class Pick(NamedTuple):
    """A batch by its index in the epoch, and into how many parts it is cut, the first of which is taken."""

    batch: int
    parts: int


@final
class Picked(Generic[B]):
    """Implements `data.epochs.Stream`: some batches of the first epoch of another stream, again and again."""

    def __init__(self, stream: BatchStream[B], picks: Sequence[Pick]) -> None:
        self._stream, self._picks = stream, list(picks)
        self._next = 0

    @property
    def position(self) -> dict[str, int]:
        """How many were given."""
        return {"epoch": 0, "batch": self._next}

    def seek(self, position: Mapping[str, int]) -> None:
        """Go on after so many."""
        self._next = position["batch"]

    def batches_per_epoch(self) -> int:
        """As many as there are picks."""
        return len(self._picks)

    def __next__(self) -> B:
        pick = self._picks[self._next % len(self._picks)]
        self._next += 1
        return picked(self._stream, pick)


def with_picks(work: TrainingSetup[Any], picks: Sequence[Sequence[Pick]]) -> TrainingSetup[Any]:
    """The same training, learning from the batches that are picked for each update."""
    stream: BatchStream[Any] = Picked(work.stream, [pick for update in picks for pick in update])
    return replace(work, stream=stream)


def picked(stream: BatchStream[B], pick: Pick) -> B:
    """The rows of a batch that a pick is about."""
    stream.seek({"epoch": 0, "batch": pick.batch})
    part, _ = WorkerGroup(0, pick.parts).own_part(next(stream))
    return part


def survey(stream: BatchStream[B]) -> dict[int, Load]:
    """What the batches of the first epoch weigh, by index: of all, or of as many as are evenly spread among them."""
    count = stream.batches_per_epoch()
    chosen = np.unique(np.linspace(0, count - 1, num=min(count, MOST_SURVEYED)).round().astype(int)).tolist()
    return {index: load_of(picked(stream, Pick(index, 1))) for index in chosen}


def picks_of(loads: Mapping[int, Load], *, accumulate: int, updates: int, seed: int) -> list[list[Pick]]:
    """The batches of each update that is looked at: from the smallest share of the heaviest batch to whole ones.

    The heaviest by each of what a batch weighs come first, for memory; then those of every weight in turn, for time.
    """
    heaviest = _heaviest(loads)
    picks = [[Pick(heaviest[0], parts)] * accumulate for parts in SHARES[:-1] for _ in range(2)]
    picks += [[Pick(index, 1)] * accumulate for index in heaviest]
    by_weight = sorted(loads, key=lambda index: (loads[index].places, loads[index].squares, index))
    generator = np.random.default_rng(seed)
    # The golden ratio spreads any number of picks evenly over the weights.
    places = (generator.random() + np.arange(updates * accumulate) * 0.6180339887) % 1.0
    spread = [Pick(by_weight[int(place * len(by_weight))], 1) for place in places]
    return [*picks, *(spread[at : at + accumulate] for at in range(0, len(spread), accumulate))]


def _heaviest(loads: Mapping[int, Load]) -> list[int]:
    """The batches that may need the most memory: by all places, by what is predicted, and by the widths of rows."""
    first = max(loads, key=lambda index: loads[index].places)
    others = (
        max(loads, key=lambda index: loads[index].predictions),
        max(loads, key=lambda index: loads[index].squares),
    )
    return list(dict.fromkeys((first, *others)))
