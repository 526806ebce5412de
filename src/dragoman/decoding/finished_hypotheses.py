"""Finished hypotheses of a running beam search, and the token history they are read from."""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from dragoman.decoding.beam_candidates import NEG_INF, BeamCandidates
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import normalize_by_length
from dragoman.typing import Bool, Float, Int

INITIAL_LENGTH = 32
"""Tokens per output that the history allocates at first; it doubles."""


@dataclass(frozen=True)
class FinishedHypotheses:
    """Hypotheses to return: finished before cut off, better before worse, empty entries last.

    A hypothesis is identified by its `lengths` (tokens, end symbol not counted) and its index among the `beams` open at
    that length. An empty entry has a log-probability of minus infinity.
    """

    scores: Float[np.ndarray, "batch places"]
    log_probs: Float[np.ndarray, "batch places"]
    end_log_probs: Float[np.ndarray, "batch places"]
    lengths: Int[np.ndarray, "batch places"]
    beams: Int[np.ndarray, "batch places"]
    finished: Bool[np.ndarray, "batch places"]

    def merge(self, other: Self) -> Self:
        """Return the best of both in as many entries as this one has; ties keep the earlier hypothesis first."""
        both = self._concat(other, axis=1)
        order = np.lexsort((-both.scores, ~both.finished), axis=1)[:, : self.scores.shape[1]]
        rows = np.arange(len(order))[:, None]
        return type(self)(*(array[rows, order] for array in both._arrays()))

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """Return the entries of these sentences."""
        return type(self)(*(array[rows] for array in self._arrays()))

    def concat(self, other: Self) -> Self:
        """Append the sentences of the other."""
        return self._concat(other, axis=0)

    def _concat(self, other: Self, *, axis: int) -> Self:
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return type(self)(*(np.concatenate(pair, axis=axis) for pair in pairs))

    def _arrays(self) -> list[np.ndarray]:
        return [getattr(self, field.name) for field in fields(self)]


def finish(
    candidates: BeamCandidates,
    lengths: Int[np.ndarray, " batch"],
    *,
    where: Bool[np.ndarray, "batch beam"],
    penalty: LengthPenalty,
) -> FinishedHypotheses:
    """Return the candidates that end with the end symbol, marked by `where`; `lengths` are those of their parents."""
    beam = where.shape[1]
    log_probs = np.where(where, candidates.log_probs[:, :beam], NEG_INF)
    return _build(
        log_probs,
        candidates.token_log_probs[:, :beam],
        lengths,
        candidates.parents[:, :beam],
        penalty=penalty,
        finished=True,
    )


def cut_off(
    hypotheses: BeamCandidates,
    lengths: Int[np.ndarray, " batch"],
    *,
    where: Bool[np.ndarray, "batch beam"],
    penalty: LengthPenalty,
) -> FinishedHypotheses:
    """Return the open hypotheses marked by `where`, which may not grow longer."""
    log_probs = np.where(where, hypotheses.log_probs, NEG_INF)
    beams = np.broadcast_to(np.arange(log_probs.shape[1]), log_probs.shape)
    return _build(log_probs, np.zeros_like(log_probs), lengths, beams, penalty=penalty, finished=False)


def empty_finished(sentences: int, beam_size: int) -> FinishedHypotheses:
    """Return empty entries."""
    impossible = np.full((sentences, beam_size), NEG_INF)
    zeros = np.zeros((sentences, beam_size), dtype=np.int64)
    nothing = np.zeros((sentences, beam_size), dtype=np.bool_)
    return FinishedHypotheses(impossible, impossible, np.zeros_like(impossible), zeros, zeros, nothing)


def _build(
    log_probs: Float[np.ndarray, "batch places"],
    end_log_probs: Float[np.ndarray, "batch places"],
    lengths: Int[np.ndarray, " batch"],
    beams: Int[np.ndarray, "batch places"],
    *,
    penalty: LengthPenalty,
    finished: bool,
) -> FinishedHypotheses:
    spread = np.broadcast_to(lengths[:, None], beams.shape)
    scores = normalize_by_length(log_probs, spread + int(finished), penalty)
    real = log_probs > NEG_INF
    return FinishedHypotheses(scores, log_probs, end_log_probs, spread, beams, real & finished)


class BeamHistory:
    """Tokens and parents of every step, one slot per active sentence; freed slots are used again."""

    def __init__(self, beam_size: int) -> None:
        self._free: list[int] = []
        empty = (0, INITIAL_LENGTH, beam_size)
        self._tokens: Int[np.ndarray, "slots lengths beam"] = np.zeros(empty, dtype=np.int32)
        self._parents: Int[np.ndarray, "slots lengths beam"] = np.zeros(empty, dtype=np.int32)
        self._log_probs: Float[np.ndarray, "slots lengths beam"] = np.zeros(empty, dtype=np.float32)

    def allocate(self, sentences: int) -> Int[np.ndarray, " batch"]:
        """Return free slots for this many sentences."""
        slots = len(self._tokens)
        if len(self._free) < sentences:
            more = max(sentences - len(self._free), slots)
            self._grow(more, axis=0)
            self._free += reversed(range(slots, slots + more))
        return np.array([self._free.pop() for _ in range(sentences)], dtype=np.int64)

    def append(
        self, slots: Int[np.ndarray, " kept"], lengths: Int[np.ndarray, " kept"], hypotheses: BeamCandidates
    ) -> None:
        """Record the tokens that extend hypotheses of these lengths."""
        room = self._tokens.shape[1]
        if int(lengths.max()) >= room:
            self._grow(room, axis=1)
        self._tokens[slots, lengths] = hypotheses.tokens
        self._parents[slots, lengths] = hypotheses.parents
        self._log_probs[slots, lengths] = hypotheses.token_log_probs

    def free(self, slots: Int[np.ndarray, " over"]) -> None:
        """Release slots."""
        self._free += slots.tolist()

    def backtrack(
        self, slots: Int[np.ndarray, " over"], finished: FinishedHypotheses, *, count: int
    ) -> list[list[Hypothesis]]:
        """Return the `count` best hypotheses of each sentence, without empty entries."""
        return [self._backtrack(slot, finished, row, count) for row, slot in enumerate(slots.tolist())]

    def _backtrack(self, slot: int, entries: FinishedHypotheses, row: int, count: int) -> list[Hypothesis]:
        lengths, beams = entries.lengths[row].tolist(), entries.beams[row].tolist()
        longest = max(lengths[:count])
        parents = self._parents[slot, :longest].tolist()
        scores, totals = entries.scores[row].tolist(), entries.log_probs[row].tolist()
        ends, finished = entries.end_log_probs[row].tolist(), entries.finished[row].tolist()
        found = []
        for entry in range(count):
            if totals[entry] == NEG_INF:
                break
            beam, path = beams[entry], []
            for step in reversed(range(lengths[entry])):
                path.append(beam)
                beam = parents[step][beam]
            index = slot, np.arange(lengths[entry]), path[::-1]
            end = (ends[entry],) if finished[entry] else ()
            found.append(
                Hypothesis(
                    tokens=tuple(self._tokens[index].tolist()),
                    log_prob=totals[entry],
                    score=scores[entry],
                    token_log_probs=(*self._log_probs[index].tolist(), *end),
                    finished=finished[entry],
                )
            )
        return found

    def _grow(self, more: int, *, axis: int) -> None:
        shape = list(self._tokens.shape)
        shape[axis] = more
        self._tokens, self._parents, self._log_probs = (
            np.concatenate([array, np.zeros(shape, dtype=array.dtype)], axis=axis)
            for array in (self._tokens, self._parents, self._log_probs)
        )
