"""What a translator asks of a network, whatever computes it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.search_protocols import M, S, Searched
from dragoman.typing import Int

Ids = Sequence[int]


@runtime_checkable
class Translating(Searched[M, S], Protocol[M, S]):
    """A network from source to target, searched and scored."""

    @property
    def device(self) -> Any:
        """Where it computes, as whatever computes it has it."""
        ...

    @property
    def maximum_length(self) -> int | None:
        """The longest sequence that its positions know, end and begin symbols included; None where they have no end."""
        ...

    @property
    def structural(self) -> bool:
        """Whether it must be told the dependency tree of each source."""
        ...

    @property
    def joins_freely(self) -> bool:
        """Whether sentences may enter a batch that runs without a copy of what is there."""
        ...

    def in_use(self) -> AbstractContextManager[None]:
        """Inside, the network is as its users have it."""
        ...

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> M:
        """The memory of sources, given without end symbols; with a tree for each, or none.

        Where there are candidates for each, `best` knows no other tokens, and the probability is theirs alone.
        """
        ...

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        normalisation: Normalisation,
        trees: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        """Given outputs, one for each source, without begin and end symbols, as if a search had finished them."""
        ...
