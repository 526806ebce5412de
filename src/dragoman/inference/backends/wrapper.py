"""A network around another one, which answers whatever its own class does not."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.backends.protocol import Ids
from dragoman.models.search_protocols import Best
from dragoman.typing import Float, Int


class Around:
    """Implements `runtime.network.Translating` by the network inside; `follow` is for those that can."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def _inside(self, memory: Any) -> Any:
        """The memory as the network inside made it."""
        return memory

    @property
    def device(self) -> Any:
        return self.network.device

    @property
    def maximum_length(self) -> int | None:
        longest: int | None = self.network.maximum_length
        return longest

    @property
    def structural(self) -> bool:
        return bool(self.network.structural)

    @property
    def joins_freely(self) -> bool:
        return bool(self.network.joins_freely)

    def in_use(self) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self.network.in_use()
        return context

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> Any:
        return self.network.encode(sources, trees, candidates)

    def start(self, memory: Any, *, beam: int) -> Any:
        return self.network.start(self._inside(memory), beam=beam)

    def best(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: Any,
        state: Any,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> Best[Any]:
        found: Best[Any] = self.network.best(tokens, self._inside(memory), state, width=width, forbidden=forbidden)
        return found

    def follow(
        self,
        tokens: Int[np.ndarray, "batch places"],
        lengths: Int[np.ndarray, " batch"],
        memory: Any,
        state: Any,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> tuple[Float[np.ndarray, "rows width"], Int[np.ndarray, "rows width"], Any]:
        found: tuple[Float[np.ndarray, "rows width"], Int[np.ndarray, "rows width"], Any] = self.network.follow(
            tokens, lengths, self._inside(memory), state, width=width, forbidden=forbidden
        )
        return found

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        normalisation: Normalisation,
        trees: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        found: list[Hypothesis] = self.network.score(sources, outputs, normalisation=normalisation, trees=trees)
        return found
