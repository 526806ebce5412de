"""Protocol of the backends that compute models for translation and generation."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dragoman.array_types import Float
from dragoman.data.readers.conllu import Heads
from dragoman.data.shortlist import Shortlist
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.greedy_search import SamplingBackend
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.protocols import Backend, M, S

if TYPE_CHECKING:
    from dragoman.inference.scheduler import Request

TokenIds = Sequence[int]
Sources = Sequence[TokenIds]


@runtime_checkable
class InferenceBackend(Backend[M, S], SamplingBackend[M, S], Protocol[M, S]):
    """Encoder-decoder or decoder-only model: encoding, steps of search and sampling, and scoring.

    The sources of a decoder-only model are prompts of at least one token, the last of which is the first token of a
    search.
    """

    device: Any
    """Device of the model, in the backend's own type."""
    max_length: int | None
    """Longest sequence that the positions allow, begin and end symbols included; None without a limit."""
    needs_source_features: bool
    """True if the model requires the dependency heads of each source."""
    continuous_batching: bool
    """True if sentences may enter a running batch without a copy of the batch."""
    shortlist: Shortlist | None
    """Tokens that `top_k` considers for each source, and normalizes over; None for the whole vocabulary."""

    def inference_mode(self) -> AbstractContextManager[None]:
        """Disable gradients and dropout inside the context."""
        ...

    def encode(self, sources: Sources, source_features: Sequence[Heads] = (), *, needed: Sources = ()) -> M:
        """Encode sources, given without end symbols, each with the dependency heads of its words, or none with any.

        `needed` are tokens that join the shortlist of each source; without a shortlist, there are none.
        """
        ...

    def score(
        self, sources: Sources, targets: Sources, *, penalty: LengthPenalty, source_features: Sequence[Heads] = ()
    ) -> list[Hypothesis]:
        """Score one target per source, without begin symbol; targets of an encoder-decoder end with the end symbol.

        The whole vocabulary counts.
        """
        ...

    def align(
        self,
        sources: Sources,
        targets: Sources,
        *,
        head: AlignmentHead | None = None,
        source_features: Sequence[Heads] = (),
    ) -> list[Float[np.ndarray, "target source"]]:
        """Return the attention of the tokens of each target to those of its source, given without end symbols.

        The last row and column are those of the end symbols. `head` is `AlignmentHead.default` by default. Raises
        DataError if the model has no cross-attention that aligns words.
        """
        ...


@runtime_checkable
class RunsRequests(Protocol):
    """Backend that decodes whole requests by itself, such as one of another process."""

    def run_requests(self, requests: Sequence["Request"]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request."""
        ...


def describe_backend(backend: InferenceBackend[Any, Any]) -> str:
    """Return class, number format and device of a backend, for the representation of a model."""
    compute_type: str | None = getattr(backend, "compute_type", None)
    return ", ".join([type(backend).__name__, *filter(None, [compute_type]), f"device={backend.device}"])


def as_backend(model: Any, **options: Any) -> InferenceBackend[Any, Any]:
    """Return a backend as it is, and a PyTorch model in a `TorchBackend` with the options.

    PyTorch is imported for its own models only.
    """
    if isinstance(model, InferenceBackend):
        return model
    return import_module("dragoman.inference.backends.torch_backend").TorchBackend(model, **options)
