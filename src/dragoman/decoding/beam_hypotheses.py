"""Hypotheses of a beam search: candidates of a step, finished hypotheses, and the history they are read from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import normalize_by_length
from dragoman.decoding.search_base import NEG_INF, RowBatch
from dragoman.models.special_symbols import EOS

INITIAL_LENGTH = 32
"""Tokens per output that the history allocates at first; it doubles."""


@dataclass(frozen=True)
class BeamCandidates(RowBatch):
    """Hypotheses by their last token, best first; impossible ones have a log-probability of minus infinity."""

    tokens: Int[np.ndarray, "batch width"]
    parents: Int[np.ndarray, "batch width"]
    token_log_probs: Float[np.ndarray, "batch width"]
    log_probs: Float[np.ndarray, "batch width"]

    def take(self, indices: Int[np.ndarray, "batch taken"]) -> Self:
        """Return the candidates at the given indices of each sentence."""
        flat = _flat_indices(indices, width=self.tokens.shape[1])
        return type(self)(
            self.tokens.take(flat), self.parents.take(flat), self.token_log_probs.take(flat), self.log_probs.take(flat)
        )

    def replace_rows(self, rows: Sequence[int], other: Self) -> Self:
        """Return the candidates with those of these rows from the other."""
        found = []
        for own, part in zip(vars(self).values(), vars(other).values(), strict=True):
            array = own.copy()
            array[rows] = part
            found.append(array)
        return type(self)(*found)


def initial_candidates(start_tokens: Int[np.ndarray, " batch"], beam_size: int) -> BeamCandidates:
    """Return one hypothesis per sentence, its start token, and `beam_size - 1` impossible ones."""
    log_probs = np.full((len(start_tokens), beam_size), NEG_INF)
    log_probs[:, 0] = 0.0
    tokens = np.repeat(start_tokens[:, None], beam_size, axis=1)
    return BeamCandidates(tokens, np.zeros_like(tokens), np.zeros_like(log_probs), log_probs)


def best_candidates(
    token_log_probs: Float[np.ndarray, "batch beam best"],
    tokens: Int[np.ndarray, "batch beam best"],
    log_probs: Float[np.ndarray, "batch beam"],
    *,
    width: int,
) -> BeamCandidates:
    """Return the `width` best (parent, token) pairs of each sentence; ties break by lower token, then lower parent.

    `tokens` are the best continuations of each hypothesis (`width` of them suffice), `log_probs` those of the
    hypotheses.
    """
    batch, beam, each = tokens.shape
    losses = -(log_probs[..., None] + token_log_probs).reshape(batch, beam * each)
    order = _smallest_first(losses, tokens.reshape(batch, beam * each), width=width)
    flat = _flat_indices(order, width=beam * each)
    parents = (order // each).astype(tokens.dtype)
    return BeamCandidates(tokens.take(flat), parents, token_log_probs.take(flat), -losses.take(flat))


def _smallest_first(
    losses: Float[np.ndarray, "batch candidates"], tokens: Int[np.ndarray, "batch candidates"], *, width: int
) -> Int[np.ndarray, "batch width"]:
    """Return the indices of the `width` smallest losses; ties break by lower token, then lower index."""
    order = losses.argsort(axis=1)[:, : width + 1]
    sorted_ = losses.take(_flat_indices(order, width=losses.shape[1]))
    # Ties are rare, and a stable sort over two keys takes five times as long.
    equal = sorted_[:, 1:] == sorted_[:, :-1]
    order = order[:, :width]
    if np.count_nonzero(equal):  # a quarter of the time of any(), which matters for single sentences
        tied = equal.any(axis=1)
        order[tied] = np.lexsort((tokens[tied], losses[tied]), axis=1)[:, :width]
    return order


def _flat_indices(indices: Int[np.ndarray, "batch taken"], *, width: int) -> Int[np.ndarray, "batch taken"]:
    """Turn indices per row of an array of this width into indices of the flattened array, which are faster to take."""
    return indices if len(indices) == 1 else indices + np.arange(0, len(indices) * width, width)[:, None]


def unfinished_indices(candidates: BeamCandidates, *, beam_size: int) -> Int[np.ndarray, "batch beam"]:
    """Return the indices of the `beam_size` best candidates that do not end with the end symbol."""
    ends: Bool[np.ndarray, "batch width"] = candidates.tokens == EOS
    return ends.argsort(axis=1, kind="stable")[:, :beam_size]


def keep_paths(
    candidates: BeamCandidates,
    paths: Int[np.ndarray, " batch"],
    token_log_probs: Float[np.ndarray, "batch beam best"],
    tokens: Int[np.ndarray, "batch beam best"],
    log_probs: Float[np.ndarray, "batch beam"],
) -> tuple[BeamCandidates, Int[np.ndarray, " batch"]]:
    """Return the candidates, with the most probable continuation of a path of each sentence, and its index or -1.

    `paths` are indices of hypotheses, or -1 for none. A continuation that would neither finish nor stay open takes the
    last place of the beam, and the candidates after it move back by one.
    """
    rows, beam, width = np.arange(len(paths)), log_probs.shape[1], candidates.tokens.shape[1]
    next_tokens = tokens[rows, paths, 0]
    matches = (candidates.parents == paths[:, None]) & (candidates.tokens == next_tokens[:, None])
    places = np.where(matches.any(axis=1), matches.argmax(axis=1), -1)
    absent = ((places < 0) | (places >= beam)) & (paths >= 0)
    if not np.count_nonzero(absent):
        return candidates, places
    before = (candidates.tokens != EOS) & (np.arange(width) < places[:, None])
    absent &= (places < 0) | (next_tokens == EOS) | (before.sum(axis=1) >= beam)
    ends = token_log_probs[rows, paths, 0]
    values = next_tokens, paths, ends, log_probs[rows, paths] + ends
    absent &= values[-1] > NEG_INF
    if not np.count_nonzero(absent):
        return candidates, places
    changed = absent.nonzero()[0]
    others = np.arange(width) != (places[changed, None] % width)  # without its place, or the last one
    moved = BeamCandidates(
        *(
            np.insert(array[changed][others].reshape(-1, width - 1), beam - 1, value[changed], axis=1)
            for array, value in zip(vars(candidates).values(), values, strict=True)
        )
    )
    places[changed] = beam - 1
    return candidates.replace_rows(changed.tolist(), moved), places


def path_indices(
    continued: Int[np.ndarray, "batch beam"], places: Int[np.ndarray, " batch"]
) -> Int[np.ndarray, " batch"]:
    """Return the index of the candidate at each place among the `continued` ones, or -1 if it is not among them."""
    matches = continued == places[:, None]
    return np.where(matches.any(axis=1), matches.argmax(axis=1), -1)


@dataclass(frozen=True)
class FinishedHypotheses(RowBatch):
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

    def merge(self, other: Self, *, finished_first: bool = True) -> Self:
        """Return the best of both in as many entries as this one has; ties keep the earlier hypothesis first.

        Without `finished_first`, hypotheses that were cut off are ranked with finished ones by their scores.
        """
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        both = type(self)(*(np.concatenate(pair, axis=1) for pair in pairs))
        keys = (-both.scores, ~both.finished & finished_first)
        order = np.lexsort(keys, axis=1)[:, : self.scores.shape[1]]
        rows = np.arange(len(order))[:, None]
        return type(self)(*(array[rows, order] for array in vars(both).values()))


def empty_finished(sentences: int, beam_size: int) -> FinishedHypotheses:
    """Return empty entries."""
    impossible = np.full((sentences, beam_size), NEG_INF)
    zeros = np.zeros((sentences, beam_size), dtype=np.int64)
    nothing = np.zeros((sentences, beam_size), dtype=np.bool_)
    return FinishedHypotheses(impossible, impossible, np.zeros_like(impossible), zeros, zeros, nothing)


def finish(
    log_probs: Float[np.ndarray, "batch places"],
    end_log_probs: Float[np.ndarray, "batch places"],
    lengths: Int[np.ndarray, " batch"],
    beams: Int[np.ndarray, "batch places"],
    *,
    penalty: LengthPenalty,
    finished: bool,
    counts_end: bool | None = None,
    costs: Float[np.ndarray, "batch places"] | None = None,
) -> FinishedHypotheses:
    """Build entries of hypotheses that end with the end symbol (`finished`) or are cut off; impossible ones are empty.

    `counts_end` says whether the length in their scores counts an end symbol, by default that of finished ones. Their
    scores rank them as if their log-probabilities were lower by the `costs`.
    """
    spread = np.broadcast_to(lengths[:, None], beams.shape)
    ranked = log_probs if costs is None else (log_probs - costs).astype(np.float32)
    scores = normalize_by_length(ranked, spread + int(finished if counts_end is None else counts_end), penalty)
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

    def backtrack(self, slot: int, entries: FinishedHypotheses, row: int, *, count: int) -> list[Hypothesis]:
        """Return the `count` best hypotheses of the sentence in this slot and row, without empty entries."""
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
