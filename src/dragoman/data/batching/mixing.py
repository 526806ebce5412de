"""Several corpora as one: which pairs are read one after the other, and how often each is learnt from in an epoch.

The lines of a mixture are numbered on from corpus to corpus, so that a line tells which corpus it is of.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dragoman.config import Config
from dragoman.data.batching.epochs import Rows
from dragoman.data.readers.corpus import ParallelCorpus, corpus_name, read_corpus
from dragoman.data.readers.parallel import Example
from dragoman.data.readers.text_lines import ReadWarnings

_CHANCE = 0x3A11
"""Beside seed and epoch, for what is drawn here, which else would be what the order of the batches is drawn from."""


class ExtraCorpus(Config):
    """A further corpus to learn from."""

    corpus: ParallelCorpus
    """Its pairs, cleaned like those of `train`."""

    weight: float = Field(1.0, gt=0.0, le=1000.0)
    """How often each of its pairs is learnt from in an epoch, on average; those of `train` are once."""


@final
@dataclass
class CorpusMixture:
    """The corpora of a mixture, and the last line of each that was read."""

    corpora: Sequence[ParallelCorpus]
    ends: list[int] = field(default_factory=list)

    def examples(self, repairs: ReadWarnings) -> Iterator[Example]:
        """All examples, streamed; raises DataError as `read` does."""
        self.ends.clear()
        for corpus in self.corpora:
            before = last = self.ends[-1] if self.ends else 0
            for example in read_corpus(corpus, repairs):
                last = before + example.line
                yield replace(example, line=last)
            self.ends.append(last)

    @property
    def name(self) -> str:
        """The corpora in a message."""
        return " and ".join(corpus_name(corpus) for corpus in self.corpora)


@final
@dataclass(frozen=True)
class CorpusWeights:
    """How often each row of a store is learnt from in an epoch, on average; rows of a corpus are so equally often."""

    ends: NDArray[np.int64]
    """The first row behind each corpus."""
    weights: NDArray[np.float64]
    """How often a row of each corpus."""

    def weights_of(self, rows: Rows) -> NDArray[np.float64]:
        """How often each of some rows."""
        found: NDArray[np.float64] = self.weights[np.searchsorted(self.ends, rows, side="right")]
        return found

    def tokens_per_epoch(self, lengths: Callable[[int, int], int]) -> float:
        """The tokens of an epoch on average; `lengths` gives those of the rows from one up to another."""
        starts = [0, *self.ends.tolist()]
        return sum(
            times * lengths(start, end)
            for times, start, end in zip(self.weights.tolist(), starts, starts[1:], strict=False)
        )


def row_ends(line_of: Callable[[int], int], rows: int, ends: Sequence[int]) -> NDArray[np.int64]:
    """The first row behind each corpus of a mixture, whose lines go up from row to row."""
    return np.array([bisect_right(range(rows), end, key=line_of) for end in ends], dtype=np.int64)


def temperature_weights(ends: NDArray[np.int64], temperature: float) -> CorpusWeights:
    r"""Of a corpus of $n_i$ pairs, a share of $n_i^{1/T} / \sum_j n_j^{1/T}$ of the epoch, as long as all together.

    At T = 1 each pair is learnt from once; the higher T, the more the corpora are alike in share (Arivazhagan et al.,
    2019, section 4.2).
    """
    sizes = np.maximum(np.diff(ends, prepend=0), 1).astype(np.float64)  # of none, none is drawn however often
    shares = sizes ** (1 / temperature)
    return CorpusWeights(ends, sizes ** (1 / temperature - 1) * (sizes.sum() / shares.sum()))


def locate_line(line: int, ends: Sequence[int]) -> tuple[int, int]:
    """The number of the corpus, from 0, and the line in it, of a line of the mixture."""
    corpus = bisect_left(ends, line)
    return corpus, line - (ends[corpus - 1] if corpus else 0)


def sample_rows(weights: NDArray[np.float64], *, seed: Sequence[int]) -> Rows:
    """The places of what is learnt from: each as often as its times say, the fraction of them by chance from `seed`."""
    generator = np.random.default_rng([*seed, _CHANCE])
    whole = np.floor(weights)
    counts = whole.astype(np.int64) + (generator.random(len(weights)) < weights - whole)
    rows: Rows = np.repeat(np.arange(len(weights)), counts)
    return rows
