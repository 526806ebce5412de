"""Outputs longer than the context of a decoder-only model: the oldest tokens leave.

The model reads prompt and output token by token until it has read `context` tokens. Before the next token, the oldest
quarter is dropped and the rest, the next token included, is read again in parallel, at the first positions. So at least
three quarters of the context are always visible, and a token costs on average one step and three tokens read in
parallel. A prompt longer than the context is cut in the same way.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dragoman.decoding.greedy_search import NextTokens
from dragoman.decoding.sampling import SamplingStep
from dragoman.decoding.search_base import RowBatch
from dragoman.inference.backends.protocol import InferenceBackend, TokenIds
from dragoman.models.protocols import LastTokens


def tokens_after_slide(context: int) -> int:
    """Return the tokens of a context that stay visible when the oldest quarter leaves."""
    return max(1, context - max(1, context // 4))


@dataclass(frozen=True)
class SlidingState(RowBatch):
    """Tokens that the model sees, and its memory and state after them; as a memory, the prompts without state."""

    seen: tuple[tuple[int, ...], ...]
    memory: Any
    state: Any


@final
class SlidingContext:
    """Wrapper of a decoder-only backend that samples outputs of any length; implements `SamplingBackend`.

    While prompt and output fit into the context, results are those of the backend.
    """

    shortlist = None

    def __init__(self, backend: InferenceBackend[Any, Any], *, context: int) -> None:
        """`context` is the most tokens that the model attends to, the latest included."""
        self.backend = backend
        self.context = context
        self.kept = tokens_after_slide(context)
        self.continuous_batching = backend.continuous_batching

    def inference_mode(self) -> AbstractContextManager[None]:
        return self.backend.inference_mode()

    def encode(
        self,
        prompts: Sequence[TokenIds],
        source_features: Sequence[Any] = (),
        *,
        needed: Sequence[TokenIds] = (),
    ) -> SlidingState:
        """Read prompts of at least one token; of too long ones the last `kept` tokens."""
        assert not source_features, "prompts have no source features"
        assert not needed, "prompts have no shortlist"
        shown = tuple(tuple(ids if len(ids) <= self.context else ids[-self.kept :]) for ids in prompts)
        return SlidingState(shown, self.backend.encode(shown), None)

    def start(self, memory: SlidingState, *, beam_size: int) -> SlidingState:
        assert beam_size == 1, "the context slides in sampling only"
        read = tuple(ids[:-1] for ids in memory.seen)
        return SlidingState(read, memory.memory, self.backend.start(memory.memory, beam_size=1))

    def sample(
        self,
        tokens: LastTokens,
        memory: SlidingState,  # noqa: ARG002  # the state holds the visible part
        state: SlidingState,
        *,
        step: SamplingStep,
    ) -> NextTokens[Any]:
        seen = tuple((*ids, token) for ids, token in zip(state.seen, tokens[:, 0].tolist(), strict=True))
        if any(len(ids) > self.context for ids in seen):
            seen, state = self._slide(seen, state)
        sampled, log_probs, after = self.backend.sample(tokens, state.memory, state.state, step=step)
        return sampled, log_probs, SlidingState(seen, state.memory, after)

    def _slide(
        self, seen: tuple[tuple[int, ...], ...], state: SlidingState
    ) -> tuple[tuple[tuple[int, ...], ...], SlidingState]:
        """Read the rows that are too long again, up to but without the latest token."""
        full = np.array([len(ids) > self.context for ids in seen])
        again, others = full.nonzero()[0], (~full).nonzero()[0]
        cut = tuple(ids[-self.kept :] if len(ids) > self.context else ids for ids in seen)
        memory = self.backend.encode([cut[row] for row in again.tolist()])
        started = SlidingState((), memory, self.backend.start(memory, beam_size=1))
        if len(others):
            order = np.concatenate([others, again]).argsort()
            memory = state.memory.select(others).concat(memory).select(order)
            started = SlidingState((), memory, state.state.select(others).concat(started.state).select(order))
        return cut, started
