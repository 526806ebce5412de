"""A network that writes, for each source, none but its candidates."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.data.shortlist import Shortlist
from dragoman.inference.backends.protocol import Ids
from dragoman.inference.backends.wrapper import Around
from dragoman.typing import Int


@final
class Shortlisted(Around):
    """Each sentence has candidates of its own, whatever is in its batch.

    The probabilities of a search are shared among them; `score` asks the network itself, about all words.
    """

    def __init__(self, network: Any, shortlist: Shortlist) -> None:
        super().__init__(network)
        self.shortlist = shortlist

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> Any:
        assert candidates is None, "the shortlist names the candidates"
        return self.network.encode(sources, trees, [self.shortlist.candidates(source) for source in sources])
