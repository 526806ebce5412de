"""Backend wrapper that restricts outputs to a lexical shortlist."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import numpy as np

from dragoman.array_types import Int
from dragoman.data.readers.conllu import Heads
from dragoman.data.shortlist import Shortlist
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.greedy_search import NextTokens
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.sampling import SamplingStep
from dragoman.inference.backends.protocol import InferenceBackend, Shortlists, TokenIds
from dragoman.models.protocols import TopK


@final
class ShortlistBackend:
    """Wrapper of a `InferenceBackend` in which search considers the shortlist of each source only.

    Each sentence has a list of its own, whatever else is in the batch. `score` considers the whole vocabulary.
    """

    def __init__(self, backend: InferenceBackend[Any, Any], shortlist: Shortlist) -> None:
        self.backend = backend
        self.shortlist = shortlist
        self.device = backend.device
        self.max_length = backend.max_length
        self.needs_source_features = backend.needs_source_features
        self.continuous_batching = backend.continuous_batching

    def inference_mode(self) -> AbstractContextManager[None]:
        return self.backend.inference_mode()

    def encode(
        self, sources: Sequence[TokenIds], source_features: Sequence[Heads] = (), shortlists: Shortlists | None = None
    ) -> Any:
        assert shortlists is None, "the wrapper provides the shortlists"
        return self.backend.encode(sources, source_features, [self.shortlist.tokens_for(source) for source in sources])

    def start(self, memory: Any, *, beam_size: int) -> Any:
        return self.backend.start(memory, beam_size=beam_size)

    def top_k(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: Any,
        state: Any,
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
    ) -> TopK[Any]:
        return self.backend.top_k(tokens, memory, state, k=k, suppress_tokens=suppress_tokens)

    def sample(
        self, tokens: Int[np.ndarray, "batch 1"], memory: Any, state: Any, *, step: SamplingStep
    ) -> NextTokens[Any]:
        return self.backend.sample(tokens, memory, state, step=step)

    def score(
        self,
        sources: Sequence[TokenIds],
        targets: Sequence[TokenIds],
        *,
        penalty: LengthPenalty,
        source_features: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        return self.backend.score(sources, targets, penalty=penalty, source_features=source_features)
