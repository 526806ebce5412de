"""A network that writes, for each source, none but its candidates."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, final

import numpy as np
from jaxtyping import Float, Int

from dragoman.data.corpora.conllu import Heads
from dragoman.data.shortlist import Shortlist
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.searched import Best, M, S
from dragoman.runtime.network import Ids, Translating


@final
class Shortlisted(Generic[M, S]):
    """Implements `runtime.network.Translating` around another network.

    Each sentence has candidates of its own, whatever is in its batch. The probabilities of a search are shared among
    them; `score` asks the network itself, about all words.
    """

    def __init__(self, network: Translating[M, S], shortlist: Shortlist) -> None:
        self.network = network
        self.shortlist = shortlist

    @property
    def device(self) -> Any:
        return self.network.device

    @property
    def maximum_length(self) -> int | None:
        return self.network.maximum_length

    @property
    def structural(self) -> bool:
        return self.network.structural

    @property
    def joins_freely(self) -> bool:
        return self.network.joins_freely

    def in_use(self) -> AbstractContextManager[None]:
        return self.network.in_use()

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> M:
        assert candidates is None, "the shortlist names the candidates"
        return self.network.encode(sources, trees, [self.shortlist.candidates(source) for source in sources])

    def start(self, memory: M, *, beam: int) -> S:
        return self.network.start(memory, beam=beam)

    def best(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: M,
        state: S,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> Best[S]:
        return self.network.best(tokens, memory, state, width=width, forbidden=forbidden)

    def follow(
        self,
        tokens: Int[np.ndarray, "batch places"],
        lengths: Int[np.ndarray, " batch"],
        memory: M,
        state: S,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> tuple[Float[np.ndarray, "rows width"], Int[np.ndarray, "rows width"], S]:
        """As the network inside does, which must be one that can."""
        network: Any = self.network
        found: tuple[Float[np.ndarray, "rows width"], Int[np.ndarray, "rows width"], S] = network.follow(
            tokens, lengths, memory, state, width=width, forbidden=forbidden
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
        return self.network.score(sources, outputs, normalisation=normalisation, trees=trees)
