"""Tree of a beam search: the candidates of every step, their outcomes, and the path to the best hypothesis."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from dragoman.decoding import BeamSearch, DecodingConfig, Hypothesis, OutputStart, run_search, search
from dragoman.decoding.beam_search import SearchStep
from dragoman.decoding.config import DecodingMethod
from dragoman.decoding.length_penalty import hypothesis_score
from dragoman.models.protocols import Backend
from dragoman.models.special_symbols import EOS

Outcome = Literal["continued", "finished", "pruned"]
"""Kept in the beam, finished by the end symbol, or discarded because enough others are better."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One continuation of a hypothesis."""

    parent: int | None
    """Index among the candidates of the previous step; None in the first step."""
    token: int
    log_prob: float
    """Of the token given its parent."""
    total: float
    """Of all tokens so far."""
    outcome: Outcome


@dataclass(frozen=True)
class BeamTree:
    """Search for one sentence; `steps[s]` are the candidates for token `s`, best first."""

    beam_size: int
    steps: tuple[tuple[Candidate, ...], ...]

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """Return the path of a token sequence, as far as the tree contains it."""
        path: list[int] = []
        for candidates, token in zip(self.steps, tokens, strict=False):
            parent = path[-1] if path else None
            matches = (n for n, one in enumerate(candidates) if (one.parent, one.token) == (parent, token))
            index = next(matches, None)
            if index is None:
                break
            path.append(index)
        return path

    def finished(self) -> Iterator[tuple[int, int]]:
        """Yield step and index of every finished candidate."""
        for step, candidates in enumerate(self.steps):
            for index, candidate in enumerate(candidates):
                if candidate.outcome == "finished":
                    yield step, index

    def output_path(self, tokens: Sequence[int]) -> list[int]:
        """Return the path of an output, with its end symbol if it is finished; empty if the tree lacks it."""
        outputs: list[tuple[list[int], Outcome]] = [([*tokens, EOS], "finished"), ([*tokens], "continued")]
        for output, outcome in outputs:  # the length limit cuts off an output without end symbol
            path = self.follow(output)
            if path and len(path) == len(output) and self.steps[len(path) - 1][path[-1]].outcome == outcome:
                return path
        return []


@final
class TreeRecorder:
    """Observer of a beam search that records the tree of one sentence."""

    def __init__(self, sentence_id: int = 0) -> None:
        self.sentence_id = sentence_id
        self._steps: list[tuple[Candidate, ...]] = []
        self._hypotheses: list[tuple[int, float]] = []
        """Index among the candidates of the previous step, and log-probability, of each hypothesis."""
        self._beam_size = 0

    def on_step(self, step: SearchStep) -> None:
        rows = step.sentence_ids.tolist()
        if self.sentence_id not in rows:
            return
        row = rows.index(self.sentence_id)
        found = step.candidates
        possible = int((found.log_probs[row] > -np.inf).sum())  # impossible candidates stand last
        continued, finished = step.continued[row].tolist(), step.finished[row].tolist()
        self._beam_size = len(continued)
        columns = (column[row, :possible].tolist() for column in (found.parents, found.tokens, found.log_probs))
        candidates = []
        for index, (hypothesis, token, total) in enumerate(zip(*columns, strict=True)):
            parent, before = self._hypotheses[hypothesis] if self._hypotheses else (None, 0.0)
            is_finished = index < len(finished) and finished[index]
            outcome: Outcome = "finished" if is_finished else "continued" if index in continued else "pruned"
            candidates.append(Candidate(parent, token, total - before, total, outcome))
        self._hypotheses = [(index, candidates[index].total) for index in continued if index < possible]
        self._steps.append(tuple(candidates))

    @property
    def tree(self) -> BeamTree:
        """Return the tree of the steps so far."""
        return BeamTree(self._beam_size, tuple(self._steps))


@dataclass(frozen=True)
class SearchRecord:
    """Recorded beam search, and the result of greedy search for the same text."""

    tree: BeamTree
    best_path: tuple[int, ...]
    scores: Mapping[tuple[int, int], float]
    """Score of every finished candidate, by step and index."""
    method: DecodingMethod
    """Method that chose the best hypothesis."""
    best: Hypothesis
    greedy: Hypothesis
    greedy_path: tuple[int, ...]
    """Path of greedy search, as far as the tree contains it."""


def record_search(
    backend: Backend[Any, Any], memory: Any, *, config: DecodingConfig, limit: int, start: OutputStart | None = None
) -> SearchRecord:
    """Search for the output of the one sentence of a memory, and record the tree.

    `limit` is the maximum number of output tokens; `start` replaces the begin symbol.
    """
    recorder, limits = TreeRecorder(), np.array([limit])
    starts = None if start is None else [start]
    ((best, *_),) = run_search(
        BeamSearch(backend, config=config, observer=recorder), memory, limits=limits, starts=starts
    )
    greedy_config = config.model_copy(update={"beam_size": 1, "n_best": 1, "method": "beam_search"})
    ((greedy, *_),) = search(backend, memory, limits=limits, config=greedy_config, starts=starts)
    tree = recorder.tree
    return SearchRecord(
        tree=tree,
        best_path=tuple(tree.output_path(best.tokens)),
        scores={
            (step, index): hypothesis_score(tree.steps[step][index].total, step + 1, config.penalty)
            for step, index in tree.finished()
        },
        method=config.method,
        best=best,
        greedy=greedy,
        greedy_path=tuple(tree.follow([*greedy.tokens, EOS] if greedy.finished else greedy.tokens)),
    )
