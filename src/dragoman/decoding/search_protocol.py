"""Protocol of a search in progress, which sentences enter at any step and leave when they are complete."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.protocols import M_contra
from dragoman.typing import Int


@runtime_checkable
class Search(Protocol[M_contra]):
    """Sentences of any length that take their steps together; the result of one does not depend on the others."""

    def __len__(self) -> int:
        """Number of active sentences."""
        ...

    def add(
        self,
        memory: M_contra,
        *,
        limits: Int[np.ndarray, " batch"],
        start_tokens: Int[np.ndarray, " batch"] | None = None,
    ) -> list[int]:
        """Add sentences and return their ids; the id of a sentence that has left may be used again.

        `limits` and `start_tokens` are those of `search`.
        """
        ...

    def step(self) -> dict[int, list[Hypothesis]]:
        """Extend every hypothesis by one token and return the hypotheses of the sentences completed, by their ids.

        Requires an active sentence. Raises RunError when logits are not finite.
        """
        ...

    def remove(self, sentence_ids: Sequence[int]) -> None:
        """Remove sentences before they are complete."""
        ...


def run_search(
    search: Search[M_contra],
    memory: M_contra,
    *,
    limits: Int[np.ndarray, " batch"],
    start_tokens: Int[np.ndarray, " batch"] | None = None,
) -> list[list[Hypothesis]]:
    """Run a search to its end and return the hypotheses of each sentence of a memory."""
    if len(limits) == 0:
        return []
    ids = search.add(memory, limits=limits, start_tokens=start_tokens)
    found: dict[int, list[Hypothesis]] = {}
    while len(search) > 0:
        found |= search.step()
    return [found[sentence_id] for sentence_id in ids]
