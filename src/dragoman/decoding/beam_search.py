"""Beam search.

Each step looks at the `2 * beam_size` best continuations of a sentence: among the best `beam_size`, those with the end
symbol are finished, and the best `beam_size` without it stay open. With `keep_greedy`, the output of greedy search
takes the last place if it has no better one. A sentence is complete

- when `beam_size` hypotheses are finished and, without `early_stopping`, the best open one, at its length, scores no
  better than any of them, and the output of greedy search has ended or cannot win (a beam of one is greedy search),
- when no open hypothesis can still be among those to return (which changes no result), or
- at its length limit. Hypotheses open there are cut off, and returned after the finished ones if these are too few, or
  ranked with them (`cut_off`).

`constraints.constrained_beams` chooses the hypotheses of a sentence with constraints, which finish with all phrases.

Complete sentences leave the batch and others may enter at any step: each has its own length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, final, runtime_checkable

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.beam_hypotheses import (
    BeamCandidates,
    BeamHistory,
    FinishedHypotheses,
    best_candidates,
    empty_finished,
    finish,
    initial_candidates,
    keep_paths,
    path_indices,
    unfinished_indices,
)
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.constraints.constrained_beams import ConstrainedBeams
from dragoman.decoding.hypothesis import Hypothesis, OutputStart
from dragoman.decoding.length_penalty import normalize_by_length
from dragoman.decoding.mbr import rank_by_utility
from dragoman.decoding.search_base import NEG_INF, ForcedTokens, RowBatch, next_tokens
from dragoman.models.protocols import Backend, M, S
from dragoman.models.special_symbols import EOS

BeamFlags = Bool[np.ndarray, "kept beam"]


@dataclass(frozen=True)
class SearchStep:
    """Candidates and decisions of one step, one row per active sentence."""

    sentence_ids: Int[np.ndarray, " kept"]
    """Ids of the sentences, as `Search.add` returns them."""
    lengths: Int[np.ndarray, " kept"]
    """Tokens of the hypotheses before the step."""
    candidates: BeamCandidates
    """The best (parent, token) pairs, best first, and at the end of the beam that of greedy search.

    `parents` are indices of the hypotheses before the step.
    """
    continued: Int[np.ndarray, "kept beam"]
    """Indices of the candidates that become the hypotheses after the step, impossible ones included."""
    finished: BeamFlags
    """True for each of the first `beam_size` candidates that finishes."""
    cut_off: BeamFlags
    """True for each hypothesis before the step that is returned unfinished, because it may not grow longer.

    Hypotheses that are ranked with finished ones are cut off after the step that completes their sentence.
    """
    complete: Bool[np.ndarray, " kept"]
    """True for each sentence that leaves the batch after this step."""


@runtime_checkable
class SearchObserver(Protocol):
    """Observer of a beam search."""

    def on_step(self, step: SearchStep) -> None:
        """Receive a step after it was taken."""
        ...


@dataclass(frozen=True)
class _Sentences(RowBatch, Generic[M, S]):
    """Active sentences; their hypotheses have `lengths` tokens."""

    ids: Int[np.ndarray, " kept"]
    lengths: Int[np.ndarray, " kept"]
    limits: Int[np.ndarray, " kept"]
    forced: ForcedTokens
    memory: M
    state: S
    hypotheses: BeamCandidates
    finished: FinishedHypotheses
    constraints: ConstrainedBeams
    greedy: Int[np.ndarray, " kept"]
    """Index of the hypothesis of greedy search, or -1: after its end, without `keep_greedy`, and with constraints."""


@final
class BeamSearch(Generic[M, S]):
    """Beam search of sentences that enter and leave at any step."""

    def __init__(self, model: Backend[M, S], *, config: DecodingConfig, observer: SearchObserver | None = None) -> None:
        self._model = model
        self._config = config
        self._penalty = config.penalty
        self._stops_early = config.early_stopping or config.beam_size == 1  # a beam of one is greedy search
        self._observer = observer
        self._history = BeamHistory(config.beam_size)
        self._active: _Sentences[M, S] | None = None

    def __len__(self) -> int:
        """Number of active sentences."""
        return 0 if self._active is None else len(self._active.ids)

    def add(self, memory: M, *, limits: Int[np.ndarray, " batch"], starts: Sequence[OutputStart]) -> list[int]:
        """Add sentences and return their ids; the id of a sentence that has left may be used again.

        `limits` are the most output tokens of each sentence, end symbol not counted.
        """
        beam_size = self._config.beam_size
        ids = self._history.allocate(len(limits))
        is_kept = [self._config.keep_greedy and start.constraints is None for start in starts]
        added = _Sentences(
            ids,
            np.zeros_like(ids),
            limits,
            ForcedTokens.of(starts),
            memory,
            self._model.start(memory, beam_size=beam_size),
            initial_candidates(np.array([start.token for start in starts]), beam_size),
            empty_finished(len(limits), beam_size),
            ConstrainedBeams.begin([start.constraints for start in starts], beam_size),
            np.where(is_kept, 0, -1),
        )
        self._active = added if self._active is None else self._active.concat(added)
        return ids.tolist()

    def step(self) -> dict[int, list[Hypothesis]]:
        """Extend every hypothesis by one token and return the hypotheses of the sentences completed, by their ids.

        Requires an active sentence. Raises RunError when logits are not finite.
        """
        before = self._active
        assert before is not None, "there is an active sentence"
        candidates, state, greedy = self._candidates(before)
        continued = unfinished_indices(candidates, beam_size=self._config.beam_size)
        longer = candidates.take(continued)
        ended, cut_off = self._decide(before, candidates, longer)
        self._history.append(before.ids, before.lengths, longer)
        finished = self._finish(before, candidates, ended, cut_off)
        kept = before.limits, before.forced, before.memory
        constraints = before.constraints.advance(longer)
        followed = path_indices(continued, greedy)
        after = _Sentences(before.ids, before.lengths + 1, *kept, state, longer, finished, constraints, followed)
        after, complete = self._cut_off_ranked(after)
        complete |= self._complete(after)
        if self._observer is not None:
            step = SearchStep(before.ids, before.lengths, candidates, continued, ended, cut_off, complete)
            self._observer.on_step(step)
        return self._advance(after, complete)

    def remove(self, sentence_ids: Sequence[int]) -> None:
        """Remove sentences before they are complete."""
        if self._active is None:
            return
        removed = np.isin(self._active.ids, sentence_ids)
        self._history.free(self._active.ids[removed])
        rows = (~removed).nonzero()[0]
        self._active = self._active.select(rows) if len(rows) else None

    def _candidates(self, active: _Sentences[M, S]) -> tuple[BeamCandidates, S, Int[np.ndarray, " kept"]]:
        """Return the candidates, the next state, and the index of the candidate of greedy search or -1."""
        width = (2 + len(self._config.end_tokens)) * self._config.beam_size  # some candidates are open
        extra = active.constraints.extra_tokens()
        log_probs, tokens, state = next_tokens(
            self._model,
            active.hypotheses.tokens,
            active.memory,
            active.state,
            k=width,
            lengths=active.lengths,
            forced=active.forced,
            config=self._config,
            extra_tokens=extra,
        )
        best = slice(tokens.shape[-1] - len(extra))
        before = active.hypotheses
        forced = {row for row, _ in active.forced.rows(active.lengths)}
        rows = [row for row, _ in active.constraints.constrained if row not in forced]
        if len(rows) < len(tokens):
            candidates = best_candidates(log_probs[..., best], tokens[..., best], before.log_probs, width=width)
        if rows:
            chosen = active.constraints.choose(rows, log_probs, tokens, before, extra=extra, width=width)
            candidates = chosen if len(rows) == len(tokens) else candidates.replace_rows(rows, chosen)
        greedy = active.greedy
        if np.count_nonzero(greedy >= 0):
            candidates, greedy = keep_paths(candidates, greedy, log_probs, tokens, before.log_probs)
        return candidates, state, greedy

    def _decide(
        self, active: _Sentences[M, S], candidates: BeamCandidates, longer: BeamCandidates
    ) -> tuple[BeamFlags, BeamFlags]:
        """Return which candidates finish and which hypotheses are cut off; `longer` are the open candidates."""
        beam = self._config.beam_size
        finished = (candidates.tokens[:, :beam] == EOS) & (candidates.log_probs[:, :beam] > NEG_INF)
        stuck = (active.limits <= active.lengths) | (longer.log_probs[:, 0] == NEG_INF)
        if not np.count_nonzero(stuck):
            return finished, np.zeros_like(finished)
        has_finished = ((candidates.parents[:, :beam, None] == np.arange(beam)) & finished[..., None]).any(axis=1)
        possible = active.hypotheses.log_probs > NEG_INF
        if active.constraints.constrained:
            possible = active.constraints.returnable(possible, active.finished.finished)
        return finished, stuck[:, None] & ~has_finished & possible

    def _finish(
        self, active: _Sentences[M, S], candidates: BeamCandidates, ended: BeamFlags, cut_off: BeamFlags
    ) -> FinishedHypotheses:
        """Return the finished hypotheses with those of this step merged in."""
        found, beam, lengths = active.finished, self._config.beam_size, active.lengths
        costs = active.constraints.costs()
        if np.count_nonzero(ended):
            log_probs = np.where(ended, candidates.log_probs[:, :beam], NEG_INF)
            ends, parents = candidates.token_log_probs[:, :beam], candidates.parents[:, :beam]
            own = None if costs is None else np.take_along_axis(costs, parents, axis=1)
            entries = finish(log_probs, ends, lengths, parents, penalty=self._penalty, finished=True, costs=own)
            found = found.merge(entries)
        if np.count_nonzero(cut_off):
            log_probs = np.where(cut_off, active.hypotheses.log_probs, NEG_INF)
            ends, beams = np.zeros_like(log_probs), np.broadcast_to(np.arange(beam), log_probs.shape)
            entries = finish(log_probs, ends, lengths, beams, penalty=self._penalty, finished=False, costs=costs)
            found = found.merge(entries)
        return found

    def _cut_off_ranked(self, active: _Sentences[M, S]) -> tuple[_Sentences[M, S], Bool[np.ndarray, " kept"]]:
        """Rank the open hypotheses at their length limit with the finished ones; also return which sentences have any.

        No sentence has if cut off hypotheses are returned last.
        """
        at_limit = active.limits == active.lengths
        if self._config.cut_off == "last" or not np.count_nonzero(at_limit):
            return active, np.zeros_like(at_limit)
        possible = np.tile(at_limit[:, None], self._config.beam_size)
        if active.constraints.constrained:
            possible &= active.hypotheses.log_probs > NEG_INF
            possible = active.constraints.returnable(possible, active.finished.finished)
        log_probs = np.where(possible, active.hypotheses.log_probs, NEG_INF)
        beams = np.broadcast_to(np.arange(self._config.beam_size), log_probs.shape)
        counts_end = self._config.cut_off == "ended"
        cut = finish(
            log_probs,
            np.zeros_like(log_probs),
            active.lengths,
            beams,
            penalty=self._penalty,
            finished=False,
            counts_end=counts_end,
            costs=active.constraints.costs(),
        )
        return replace(active, finished=active.finished.merge(cut, finished_first=False)), at_limit

    def _complete(self, active: _Sentences[M, S]) -> Bool[np.ndarray, " kept"]:
        """Return which sentences have all hypotheses to return decided."""
        found, log_probs = active.finished, active.hypotheses.log_probs
        # Preferred phrases may put others than the most probable hypothesis first.
        best = log_probs.max(axis=1) if active.constraints.constrained else log_probs[:, 0]
        over = (active.limits < active.lengths) | (best == NEG_INF)
        enough = found.finished.all(axis=1)
        if not self._stops_early and np.count_nonzero(enough):
            enough &= normalize_by_length(best, active.lengths, self._penalty) <= found.scores[:, -1]
        if np.count_nonzero(enough):
            greedy = log_probs[np.arange(len(log_probs)), active.greedy]
            enough &= (active.greedy < 0) | (self._bound(active, greedy) <= found.scores[:, 0])
        last = self._config.num_candidates - 1
        if np.count_nonzero(found.finished[:, last]):
            enough |= found.finished[:, last] & (self._bound(active, best) <= found.scores[:, last])
        return over | enough

    def _bound(self, active: _Sentences[M, S], log_probs: Float[np.ndarray, " kept"]) -> Float[np.ndarray, " kept"]:
        """Return the highest score that any continuation of hypotheses with these log-probabilities can have.

        A log-probability only falls, and no exponent of a length penalty is negative: the longest output has it.
        """
        return normalize_by_length(log_probs, active.limits + 1, self._penalty)

    def _advance(self, active: _Sentences[M, S], complete: Bool[np.ndarray, " kept"]) -> dict[int, list[Hypothesis]]:
        """Remove complete sentences, reorder the state of the others, and return the hypotheses found."""
        found: dict[int, list[Hypothesis]] = {}
        if np.count_nonzero(complete):
            rows = complete.nonzero()[0]
            ids = active.ids[rows]
            count, slots = self._config.num_candidates, zip(ids.tolist(), rows.tolist(), strict=True)
            hypotheses = [self._history.backtrack(slot, active.finished, row, count=count) for slot, row in slots]
            self._history.free(ids)
            if self._config.method == "mbr":
                hypotheses = [rank_by_utility(candidates, self._config) for candidates in hypotheses]
            found = dict(zip(ids.tolist(), hypotheses, strict=True))
            if len(found) == len(complete):
                self._active = None
                return found
            active = active.select((~complete).nonzero()[0])
        self._active = replace(active, state=active.state.reorder(active.hypotheses.parents))
        return found
