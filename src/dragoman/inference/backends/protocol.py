"""Protocol of the backends that compute models for translation and generation."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dragoman.array_types import Int
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.greedy_search import SamplingBackend
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.protocols import Backend, M, S

TokenIds = Sequence[int]
Shortlists = Sequence[Int[np.ndarray, "_"]]
"""The tokens allowed for each source."""


@runtime_checkable
class InferenceBackend(Backend[M, S], SamplingBackend[M, S], Protocol[M, S]):
    """Encoder-decoder or decoder-only model: encoding, steps of search and sampling, and scoring.

    The sources of a decoder-only model are prompts of at least one token, the last of which is the first token of a
    search.
    """

    @property
    def device(self) -> Any:
        """Device of the model, in the backend's own type."""
        ...

    @property
    def max_length(self) -> int | None:
        """Longest sequence that the positions allow, begin and end symbols included; None without a limit."""
        ...

    @property
    def needs_source_features(self) -> bool:
        """True if the model requires the dependency heads of each source."""
        ...

    @property
    def continuous_batching(self) -> bool:
        """True if sentences may enter a running batch without a copy of the batch."""
        ...

    def inference_mode(self) -> AbstractContextManager[None]:
        """Disable gradients and dropout inside the context."""
        ...

    def encode(
        self, sources: Sequence[TokenIds], source_features: Sequence[Heads] = (), shortlists: Shortlists | None = None
    ) -> M:
        """Encode sources, given without end symbols, each with the dependency heads of its words, or none with any.

        With shortlists, `top_k` considers the tokens of the list only and normalizes over them.
        """
        ...

    def score(
        self,
        sources: Sequence[TokenIds],
        targets: Sequence[TokenIds],
        *,
        penalty: LengthPenalty,
        source_features: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        """Score one target per source, without begin symbol; targets of an encoder-decoder end with the end symbol."""
        ...
