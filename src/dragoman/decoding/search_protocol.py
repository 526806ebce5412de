"""A search in progress, whichever it is: sentences enter it at any time and leave it when they are over."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.search_protocols import M_contra
from dragoman.typing import Int


@runtime_checkable
class Search(Protocol[M_contra]):
    """Sentences of any ages that take their steps together; what is found for one does not depend on the others."""

    def __len__(self) -> int:
        """How many sentences are searched for."""
        ...

    def add(
        self,
        memory: M_contra,
        *,
        limits: Int[np.ndarray, " batch"],
        first: Int[np.ndarray, " batch"] | None = None,
    ) -> list[int]:
        """Let sentences enter, and name them; the name of a sentence that has left is given anew.

        `limits` and `first` are those of `search`.
        """
        ...

    def step(self) -> dict[int, list[Hypothesis]]:
        """Every hypothesis one symbol longer; what was found for the sentences that are over with it, by their names.

        There must be a sentence. Raises RunError when logits are not numbers.
        """
        ...

    def drop(self, names: Sequence[int]) -> None:
        """Let sentences leave which are not over."""
        ...


def to_the_end(
    search: Search[M_contra],
    memory: M_contra,
    *,
    limits: Int[np.ndarray, " batch"],
    first: Int[np.ndarray, " batch"] | None,
) -> list[list[Hypothesis]]:
    """What a search finds for each sentence of a memory."""
    if len(limits) == 0:
        return []
    names = search.add(memory, limits=limits, first=first)
    found: dict[int, list[Hypothesis]] = {}
    while len(search) > 0:
        found |= search.step()
    return [found[name] for name in names]
