"""A stand-in for the compiled core, with its interface: a network that copies its source, whatever its weights say.

It holds the bridge to the core to its contract where the core is not installed, and needs nothing but numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

END = 3
SURE = 0.9
"""The probability of the token that is copied; the others share the rest, and an early end is all but impossible."""


def accepts(config: Mapping[str, Any]) -> str | None:
    if config["kind"] != "transformer":
        return f"models of kind {config['kind']} are not for the compiled core"
    return None if config["norm"] == "layer" else "this norm is not for the compiled core"


@dataclass(frozen=True)
class Memory:
    rows: tuple[tuple[int, ...], ...]
    candidates: tuple[tuple[int, ...], ...]

    def keep(self, rows: Sequence[int]) -> Memory:
        return Memory(tuple(self.rows[row] for row in rows), tuple(self.candidates[row] for row in rows))

    def join(self, other: Memory) -> Memory:
        return Memory(self.rows + other.rows, self.candidates + other.candidates)


@dataclass(frozen=True)
class State:
    ages: tuple[int, ...]
    beam: int

    def select(self, parents: np.ndarray) -> State:
        assert parents.shape[0] == len(self.ages)
        assert parents.max() < self.beam
        return State(self.ages, parents.shape[1])

    def keep(self, rows: Sequence[int]) -> State:
        return State(tuple(self.ages[row] for row in rows), self.beam)

    def back(self, places: Sequence[int]) -> State:
        return State(tuple(age - place for age, place in zip(self.ages, places, strict=True)), self.beam)

    def join(self, other: State) -> State:
        assert self.beam == other.beam
        return State(self.ages + other.ages, self.beam)


class Model:
    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, np.ndarray], *, compute: str) -> None:
        if config["size"] != weights["decoder_norm.weight"].shape[0]:
            raise ValueError("weights: decoder_norm.weight is of another size")
        self.vocabulary = config["target_vocabulary"]
        assert all(array.dtype in (np.float32, np.uint16, np.int8) for array in weights.values())
        if any(array.dtype == np.int8 for array in weights.values()):
            assert compute == "int8"

    def encode(self, ids: np.ndarray, lengths: np.ndarray, *, candidates: Sequence[np.ndarray] | None = None) -> Memory:
        rows = tuple(tuple(row[:length]) for row, length in zip(ids.tolist(), lengths.tolist(), strict=True))
        every = [np.arange(self.vocabulary)] * len(rows) if candidates is None else candidates
        assert len(every) == len(rows)
        return Memory(rows, tuple(tuple(some.tolist()) for some in every))

    def start(self, memory: Memory, beam: int) -> State:
        return State((0,) * len(memory.rows), beam)

    def step(self, tokens: np.ndarray, memory: Memory, state: State) -> tuple[np.ndarray, State]:
        assert tokens.dtype == np.int32
        assert tokens.flags.c_contiguous
        assert tokens.shape == (len(memory.rows), state.beam) == (len(state.ages), state.beam)
        logits = np.full((*tokens.shape, self.vocabulary), np.log((1 - SURE) / (self.vocabulary - 1)), np.float32)
        logits[..., END] = -20
        for row, (source, age) in enumerate(zip(memory.rows, state.ages, strict=True)):
            logits[row, :, source[age] if age < len(source) else END] = np.log(SURE)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return logits, State(tuple(age + 1 for age in state.ages), state.beam)

    def best(
        self, tokens: np.ndarray, memory: Memory, state: State, k: int, forbidden: Sequence[int] = ()
    ) -> tuple[np.ndarray, np.ndarray, State]:
        if not 1 <= k <= self.vocabulary - len(set(forbidden)):
            raise ValueError(f"k = {k} is not for this vocabulary")
        logits, after = self.step(tokens, memory, state)
        for row, some in zip(logits, memory.candidates, strict=True):
            row[:, np.setdiff1d(np.arange(self.vocabulary), some)] = -np.inf
            row -= np.log(np.exp(row).sum(axis=-1, keepdims=True))
        logits[..., list(forbidden)] = -np.inf
        ids = np.argsort(-logits, axis=-1, kind="stable")[..., :k].astype(np.int32)
        return np.take_along_axis(logits, ids, axis=-1), ids, after

    def follow(
        self,
        tokens: np.ndarray,
        lengths: Sequence[int],
        memory: Memory,
        state: State,
        k: int,
        forbidden: Sequence[int] = (),
    ) -> tuple[np.ndarray, np.ndarray, State]:
        assert tokens.dtype == np.int32
        found = []
        for row, length in enumerate(lengths):
            one, now = memory.keep([row]), state.keep([row])
            for place in range(length):
                given = np.ascontiguousarray(tokens[row : row + 1, place : place + 1])
                log_probs, ids, now = self.best(given, one, now, k, forbidden)
                found.append((log_probs[0, 0], ids[0, 0]))
        log_probs, ids = (np.stack(column) for column in zip(*found, strict=True))
        ages = tuple(age + int(length) for age, length in zip(state.ages, lengths, strict=True))
        return log_probs, ids, State(ages, 1)


class Learning:
    """Nothing is trained by a stand-in: there is none to be had, and PyTorch is alone."""

    def __new__(cls, _instruction_set: str | None) -> None:
        return None
