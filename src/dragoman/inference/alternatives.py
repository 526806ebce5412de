"""Alternatives at a place in a translation: the most probable next tokens, and the translation after each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dragoman.decoding.search_base import suppressed_tokens
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.inference.scheduler import Request, encode_requests
from dragoman.inference.translation_result import Translation


@dataclass(frozen=True, slots=True)
class Alternative:
    """Next token after a prefix, its probability, and the best translation that begins with both."""

    token: str
    probability: float
    translation: Translation

    def to_dict(self) -> dict[str, Any]:
        """Return a record of JSON."""
        return {
            "token": self.token,
            "probability": self.probability,
            "translation": self.translation.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class NextToken:
    """Token id and its probability."""

    token: int
    probability: float


def next_tokens(backend: InferenceBackend[Any, Any], request: Request, *, count: int) -> list[NextToken]:
    """Return the most probable tokens after the forced ones of a request, best first, at most `count`.

    Symbols that the configuration of the request excludes are left out.
    """
    memory = encode_requests(backend, [request])
    state = backend.start(memory, beam_size=1)
    suppressed = suppressed_tokens(request.config)
    forced: Sequence[int] = (request.start.token, *request.start.forced)
    for token in forced[:-1]:
        _, _, state = backend.top_k(np.array([[token]]), memory, state, k=1)
    log_probs, ids, _ = backend.top_k(np.array([[forced[-1]]]), memory, state, k=count, suppress_tokens=suppressed)
    found = zip(ids[0, 0].tolist(), np.exp(log_probs[0, 0]).tolist(), strict=True)
    return [NextToken(token, probability) for token, probability in found if probability > 0]
