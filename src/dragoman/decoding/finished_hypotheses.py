"""The hypotheses that a search may return, while it still goes on, and their tokens once it is over."""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from dragoman.decoding.beam_candidates import IMPOSSIBLE, Continuations
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import normalised
from dragoman.typing import Bool, Float, Int

AGES = 32
"""Tokens of an output that room is made for at first; it doubles."""


@dataclass(frozen=True)
class Endings:
    """Places for the hypotheses to return: finished ones before cut-off ones, better before worse, empty places last.

    A hypothesis is named by its `ages` (its tokens, the end symbol not counted) and its place among the `beams` open at
    that age; an empty place has a log-probability of minus infinity.
    """

    scores: Float[np.ndarray, "batch places"]
    log_probs: Float[np.ndarray, "batch places"]
    end_log_probs: Float[np.ndarray, "batch places"]
    ages: Int[np.ndarray, "batch places"]
    beams: Int[np.ndarray, "batch places"]
    finished: Bool[np.ndarray, "batch places"]

    def merge(self, other: Self) -> Self:
        """The best of both in as many places as these; an earlier hypothesis goes before an equal later one."""
        both = self._zip(other, axis=1)
        order = np.lexsort((-both.scores, ~both.finished), axis=1)[:, : self.scores.shape[1]]
        rows = np.arange(len(order))[:, None]
        return type(self)(*(part[rows, order] for part in both._parts()))

    def keep(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """Those of these sentences alone."""
        return type(self)(*(part[rows] for part in self._parts()))

    def join(self, other: Self) -> Self:
        """These sentences and the others after them."""
        return self._zip(other, axis=0)

    def _zip(self, other: Self, *, axis: int) -> Self:
        pairs = zip(self._parts(), other._parts(), strict=True)
        return type(self)(*(np.concatenate(pair, axis=axis) for pair in pairs))

    def _parts(self) -> list[np.ndarray]:
        return [getattr(self, field.name) for field in fields(self)]


def ended(
    candidates: Continuations,
    ages: Int[np.ndarray, " batch"],
    *,
    where: Bool[np.ndarray, "batch beam"],
    normalisation: Normalisation,
) -> Endings:
    """Those of the best continuations of hypotheses of so many tokens which are the end symbol: `where` it stands."""
    beam = where.shape[1]
    log_probs = np.where(where, candidates.log_probs[:, :beam], IMPOSSIBLE)
    return _endings(
        log_probs,
        candidates.token_log_probs[:, :beam],
        ages,
        candidates.parents[:, :beam],
        normalisation=normalisation,
        finished=True,
    )


def cut_off(
    hypotheses: Continuations,
    ages: Int[np.ndarray, " batch"],
    *,
    where: Bool[np.ndarray, "batch beam"],
    normalisation: Normalisation,
) -> Endings:
    """The hypotheses of so many tokens which may not go on."""
    log_probs = np.where(where, hypotheses.log_probs, IMPOSSIBLE)
    beams = np.broadcast_to(np.arange(log_probs.shape[1]), log_probs.shape)
    return _endings(log_probs, np.zeros_like(log_probs), ages, beams, normalisation=normalisation, finished=False)


def none_yet(sentences: int, beam: int) -> Endings:
    """Empty places."""
    impossible = np.full((sentences, beam), IMPOSSIBLE)
    nowhere = np.zeros((sentences, beam), dtype=np.int64)
    return Endings(
        impossible, impossible, np.zeros_like(impossible), nowhere, nowhere, np.zeros((sentences, beam), dtype=np.bool_)
    )


def _endings(
    log_probs: Float[np.ndarray, "batch places"],
    end_log_probs: Float[np.ndarray, "batch places"],
    ages: Int[np.ndarray, " batch"],
    beams: Int[np.ndarray, "batch places"],
    *,
    normalisation: Normalisation,
    finished: bool,
) -> Endings:
    spread = np.broadcast_to(ages[:, None], beams.shape)
    scores = normalised(log_probs, spread + int(finished), normalisation)
    real = log_probs > IMPOSSIBLE
    return Endings(scores, log_probs, end_log_probs, spread, beams, real & finished)


class Trail:
    """The open hypotheses of every step, to read the tokens of endings from: a slot for each sentence searched for.

    The slot of a sentence that is over is given to a later one.
    """

    def __init__(self, beam: int) -> None:
        self._free: list[int] = []
        nothing = (0, AGES, beam)
        self._tokens: Int[np.ndarray, "slots ages beam"] = np.zeros(nothing, dtype=np.int32)
        self._parents: Int[np.ndarray, "slots ages beam"] = np.zeros(nothing, dtype=np.int32)
        self._log_probs: Float[np.ndarray, "slots ages beam"] = np.zeros(nothing, dtype=np.float32)

    def begin(self, sentences: int) -> Int[np.ndarray, " batch"]:
        """Slots for so many sentences."""
        slots = len(self._tokens)
        if len(self._free) < sentences:
            more = max(sentences - len(self._free), slots)
            self._grow(more, axis=0)
            self._free += reversed(range(slots, slots + more))
        return np.array([self._free.pop() for _ in range(sentences)], dtype=np.int64)

    def append(
        self, slots: Int[np.ndarray, " kept"], ages: Int[np.ndarray, " kept"], hypotheses: Continuations
    ) -> None:
        """Note what the hypotheses of so many tokens went on with."""
        room = self._tokens.shape[1]
        if int(ages.max()) >= room:
            self._grow(room, axis=1)
        self._tokens[slots, ages] = hypotheses.tokens
        self._parents[slots, ages] = hypotheses.parents
        self._log_probs[slots, ages] = hypotheses.token_log_probs

    def end(self, slots: Int[np.ndarray, " over"]) -> None:
        """Give slots free."""
        self._free += slots.tolist()

    def follow(self, slots: Int[np.ndarray, " over"], endings: Endings, *, best: int) -> list[list[Hypothesis]]:
        """The `best` hypotheses behind the endings of each sentence; empty places are left out."""
        return [self._follow(slot, endings, row, best) for row, slot in enumerate(slots.tolist())]

    def _follow(self, slot: int, endings: Endings, row: int, best: int) -> list[Hypothesis]:
        ages, beams = endings.ages[row].tolist(), endings.beams[row].tolist()
        longest = max(ages[:best])
        parents = self._parents[slot, :longest].tolist()
        scores, totals = endings.scores[row].tolist(), endings.log_probs[row].tolist()
        ends, finished = endings.end_log_probs[row].tolist(), endings.finished[row].tolist()
        found = []
        for place in range(best):
            if totals[place] == IMPOSSIBLE:
                break
            beam, path = beams[place], []
            for age in reversed(range(ages[place])):
                path.append(beam)
                beam = parents[age][beam]
            way = slot, np.arange(ages[place]), path[::-1]
            end = (ends[place],) if finished[place] else ()
            found.append(
                Hypothesis(
                    tokens=tuple(self._tokens[way].tolist()),
                    log_prob=totals[place],
                    score=scores[place],
                    token_log_probs=(*self._log_probs[way].tolist(), *end),
                    finished=finished[place],
                )
            )
        return found

    def _grow(self, more: int, *, axis: int) -> None:
        shape = list(self._tokens.shape)
        shape[axis] = more
        self._tokens, self._parents, self._log_probs = (
            np.concatenate([part, np.zeros(shape, dtype=part.dtype)], axis=axis)
            for part in (self._tokens, self._parents, self._log_probs)
        )
