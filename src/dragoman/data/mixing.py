"""Several corpora as one: which pairs are read one after the other, and how often each is learnt from in an epoch.

The lines of a mixture are numbered on from corpus to corpus, so that a line tells which corpus it is of.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dragoman.config import Config
from dragoman.data.corpora import Corpus, Example, Repairs, name_of, read
from dragoman.data.epochs import Rows

Times = NDArray[np.float64]

_CHANCE = 0x3A11
"""Beside seed and epoch, for what is drawn here, which else would be what the order of the batches is drawn from."""


class Beside(Config):
    """A further corpus to learn from."""

    corpus: Corpus
    """Its pairs, cleaned like those of `train`."""

    times: float = Field(1.0, gt=0.0, le=1000.0)
    """How often each of its pairs is learnt from in an epoch, on average; those of `train` are once."""


@final
@dataclass
class Mixture:
    """The corpora of a mixture, and the last line of each that was read."""

    corpora: Sequence[Corpus]
    ends: list[int] = field(default_factory=list)

    def examples(self, repairs: Repairs) -> Iterator[Example]:
        """All examples, streamed; raises DataError as `read` does."""
        self.ends.clear()
        for corpus in self.corpora:
            before = last = self.ends[-1] if self.ends else 0
            for example in read(corpus, repairs):
                last = before + example.line
                yield replace(example, line=last)
            self.ends.append(last)

    @property
    def name(self) -> str:
        """The corpora in a message."""
        return " and ".join(name_of(corpus) for corpus in self.corpora)


def times_of(lines: NDArray[np.int64], ends: Sequence[int], beside: Sequence[Beside]) -> Times:
    """How often the pair of each line of a mixture is learnt from in an epoch."""
    times = np.array([1.0, *(one.times for one in beside)])
    found: Times = times[np.searchsorted(np.asarray(ends), lines)]
    return found


def place_of(line: int, ends: Sequence[int]) -> tuple[int, int]:
    """The number of the corpus, from 0, and the line in it, of a line of the mixture."""
    corpus = bisect_left(ends, line)
    return corpus, line - (ends[corpus - 1] if corpus else 0)


def drawn_rows(times: Times, *, seed: int, epoch: int) -> Rows:
    """The rows of an epoch: each as often as its times say, the fraction of them by chance from (seed, epoch)."""
    generator = np.random.default_rng([seed, epoch, _CHANCE])
    whole = np.floor(times)
    counts = whole.astype(np.int64) + (generator.random(len(times)) < times - whole)
    rows: Rows = np.repeat(np.arange(len(times)), counts)
    return rows
