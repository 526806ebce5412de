"""Stand-in for the CPU library, with its interface: a model that copies its source, whatever its weights are.

It tests the callers of the library without the library, and needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

API_VERSION = 6
END = 3
COPY_PROB = 0.9
"""Probability of the copied token; the other tokens share the rest, and an early end is nearly impossible."""


def unsupported_reason(config: Mapping[str, Any]) -> str | None:
    if config["kind"] != "encoder_decoder":
        return f"the CPU library does not run models of kind {config['kind']}"
    return None if config["norm"] == "layer" else "the CPU library does not support this norm"


@dataclass(frozen=True)
class Memory:
    rows: tuple[tuple[int, ...], ...]
    shortlists: tuple[tuple[int, ...], ...]

    def select(self, rows: Sequence[int]) -> Memory:
        return Memory(tuple(self.rows[row] for row in rows), tuple(self.shortlists[row] for row in rows))

    def concat(self, other: Memory) -> Memory:
        return Memory(self.rows + other.rows, self.shortlists + other.shortlists)


@dataclass(frozen=True)
class State:
    lengths: tuple[int, ...]
    beam_size: int

    def reorder(self, parents: np.ndarray) -> State:
        assert parents.shape[0] == len(self.lengths)
        assert parents.max() < self.beam_size
        return State(self.lengths, parents.shape[1])

    def select(self, rows: Sequence[int]) -> State:
        return State(tuple(self.lengths[row] for row in rows), self.beam_size)

    def concat(self, other: State) -> State:
        assert self.beam_size == other.beam_size
        return State(self.lengths + other.lengths, self.beam_size)


class Model:
    def __init__(
        self, config: Mapping[str, Any], weights: Mapping[str, np.ndarray], *, compute_type: str, num_threads: int = 1
    ) -> None:
        if config["d_model"] != weights["decoder_norm.weight"].shape[0]:
            raise ValueError("weights: decoder_norm.weight is of another size")
        self.vocabulary = config["target_vocabulary"]
        assert all(array.dtype in (np.float32, np.uint16, np.int8) for array in weights.values())
        if any(array.dtype == np.int8 for array in weights.values()):
            assert compute_type.startswith("int8")

    def encode(self, ids: np.ndarray, lengths: np.ndarray, *, shortlists: Sequence[np.ndarray] | None = None) -> Memory:
        rows = tuple(tuple(row[:length]) for row, length in zip(ids.tolist(), lengths.tolist(), strict=True))
        lists = [np.arange(self.vocabulary)] * len(rows) if shortlists is None else shortlists
        assert len(lists) == len(rows)
        return Memory(rows, tuple(tuple(tokens.tolist()) for tokens in lists))

    def start(self, memory: Memory, beam_size: int) -> State:
        return State((0,) * len(memory.rows), beam_size)

    def step(self, tokens: np.ndarray, memory: Memory, state: State) -> tuple[np.ndarray, State]:
        assert tokens.dtype == np.int32
        assert tokens.flags.c_contiguous
        assert tokens.shape == (len(memory.rows), state.beam_size) == (len(state.lengths), state.beam_size)
        logits = np.full((*tokens.shape, self.vocabulary), np.log((1 - COPY_PROB) / (self.vocabulary - 1)), np.float32)
        logits[..., END] = -20
        for row, (source, length) in enumerate(zip(memory.rows, state.lengths, strict=True)):
            logits[row, :, source[length] if length < len(source) else END] = np.log(COPY_PROB)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return logits, State(tuple(length + 1 for length in state.lengths), state.beam_size)

    def top_k(
        self,
        tokens: np.ndarray,
        memory: Memory,
        state: State,
        k: int,
        suppress_tokens: Sequence[int] = (),
        extra_tokens: Sequence[int] = (),
    ) -> tuple[np.ndarray, np.ndarray, State]:
        if not 1 <= k <= self.vocabulary - len(set(suppress_tokens)):
            raise ValueError(f"k = {k} exceeds the vocabulary")
        logits, next_state = self.step(tokens, memory, state)
        for row, shortlist in zip(logits, memory.shortlists, strict=True):
            row[:, np.setdiff1d(np.arange(self.vocabulary), shortlist)] = -np.inf
            row -= np.log(np.exp(row).sum(axis=-1, keepdims=True))
        extra = logits[..., list(extra_tokens)]
        logits[..., list(suppress_tokens)] = -np.inf
        ids = np.argsort(-logits, axis=-1, kind="stable")[..., :k].astype(np.int32)
        best = np.take_along_axis(logits, ids, axis=-1)
        others = np.broadcast_to(np.array(extra_tokens, np.int32), extra.shape)
        return np.concatenate([best, extra], axis=-1), np.concatenate([ids, others], axis=-1), next_state

    def cross_attention(
        self, tokens: np.ndarray, memory: Memory, state: State, *, layer: int
    ) -> tuple[np.ndarray, State]:
        """Attend to the source token that is copied next, or to the end symbol."""
        assert layer >= 0
        weights = np.zeros((len(tokens), 1, max(map(len, memory.rows))), np.float32)
        for row, (source, length) in enumerate(zip(memory.rows, state.lengths, strict=True)):
            weights[row, 0, min(length, len(source) - 1)] = 1
        return weights, State(tuple(length + 1 for length in state.lengths), state.beam_size)


class CpuOps:
    """Missing operations: `CpuOps(...)` returns None, so that training uses PyTorch."""

    def __new__(cls, _instruction_set: str | None) -> None:
        return None
