"""The tree of a beam search: every candidate of every step, what became of it, and the way back from the winner."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from dragoman.decoding import BeamSearch, DecodingConfig, Hypothesis, OutputStart, run_search, search
from dragoman.decoding.beam_search import SearchStep
from dragoman.decoding.config import DecodingMethod
from dragoman.decoding.length_penalty import hypothesis_score
from dragoman.models.protocols import Backend
from dragoman.models.special_symbols import SpecialSymbols

Fate = Literal["goes on", "ended", "cut"]
"""Among the hypotheses of the next step; finished and set aside; or beaten by enough others."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One continuation that a step looked at."""

    parent: int | None
    """Its place among the candidates of the step before; none in the first step."""
    token: int
    log_prob: float
    """Of the token after its parent."""
    total: float
    """Of all tokens up to it."""
    fate: Fate


@dataclass(frozen=True)
class BeamTree:
    """The search for one sentence. `steps[s]` are the candidates for token `s`, best first."""

    beam: int
    steps: tuple[tuple[Candidate, ...], ...]

    def path(self, step: int, place: int) -> list[int]:
        """The places of a candidate and its forebears in their steps, from the first step on."""
        way: list[int] = []
        at: int | None = place
        for number in range(step, -1, -1):
            assert at is not None, "only candidates of the first step have no parent"
            way.append(at)
            at = self.steps[number][at].parent
        return way[::-1]

    def tokens(self, step: int, place: int) -> list[int]:
        """The tokens on the way to a candidate, its own the last."""
        return [self.steps[number][at].token for number, at in enumerate(self.path(step, place))]

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """The places of these tokens one after the other, as far as the search looked at them."""
        way: list[int] = []
        for candidates, token in zip(self.steps, tokens, strict=False):
            above = way[-1] if way else None
            places = (n for n, one in enumerate(candidates) if (one.parent, one.token) == (above, token))
            place = next(places, None)
            if place is None:
                break
            way.append(place)
        return way

    def finished(self) -> Iterator[tuple[int, int]]:
        """Step and place of every candidate that ended."""
        for step, candidates in enumerate(self.steps):
            for place, candidate in enumerate(candidates):
                if candidate.fate == "ended":
                    yield step, place

    def way_to(self, tokens: Sequence[int], *, end: int) -> list[int]:
        """The path of an output of the search, with its end symbol where it has one; empty where it is not there."""
        for step, place in self.finished():
            if self.tokens(step, place) == [*tokens, end]:
                return self.path(step, place)
        last = len(tokens) - 1  # cut off at its limit
        for place, candidate in enumerate(self.steps[last] if 0 <= last < len(self.steps) else ()):
            if candidate.fate == "goes on" and self.tokens(last, place) == list(tokens):
                return self.path(last, place)
        return []


@final
class TreeObserver:
    """Looks on at a beam search and keeps the tree of one sentence, that of the given name."""

    def __init__(self, name: int = 0) -> None:
        self.name = name
        self._steps: list[tuple[Candidate, ...]] = []
        self._hypotheses: list[tuple[int, float]] = []
        """Where each hypothesis stands among the candidates of the last step, and its log-probability."""
        self._beam = 0

    def on_step(self, step: SearchStep) -> None:
        """What the search tells of each step."""
        rows = step.sentence_ids.tolist()
        if self.name not in rows:
            return
        row = rows.index(self.name)
        found = step.candidates
        possible = int((found.log_probs[row] > -np.inf).sum())  # the others stand behind them
        going_on, ended = step.continued[row].tolist(), step.finished[row].tolist()
        self._beam = len(going_on)
        columns = (column[row, :possible].tolist() for column in (found.parents, found.tokens, found.log_probs))
        candidates = []
        for place, (parent, token, total) in enumerate(zip(*columns, strict=True)):
            above, before = self._hypotheses[parent] if self._hypotheses else (None, 0.0)
            finished = place < len(ended) and ended[place]
            fate: Fate = "ended" if finished else "goes on" if place in going_on else "cut"
            candidates.append(Candidate(above, token, total - before, total, fate))
        self._hypotheses = [(place, candidates[place].total) for place in going_on if place < possible]
        self._steps.append(tuple(candidates))

    @property
    def tree(self) -> BeamTree:
        """What was seen so far."""
        return BeamTree(self._beam, tuple(self._steps))


@dataclass(frozen=True)
class SearchSeen:
    """A beam search that was watched, and what greedy search finds for the same text."""

    tree: BeamTree
    winner: tuple[int, ...]
    """The way to the best output, as `BeamTree.path` tells it."""
    scores: Mapping[tuple[int, int], float]
    """Of every candidate that ended, by step and place: what the outputs are ranked by."""
    method: DecodingMethod
    """How the best was chosen among them."""
    best: Hypothesis
    greedy: Hypothesis
    """What greedy search finds."""
    greedy_way: tuple[int, ...]
    """As far as the beam search looked at it too."""


def watch_search(
    model: Backend[Any, Any],
    memory: Any,
    *,
    settings: DecodingConfig,
    limit: int,
    symbols: SpecialSymbols,
    first: int | None = None,
) -> SearchSeen:
    """Search for the output of the one sentence of a memory, and keep the tree.

    `limit` is the most tokens of the output, `first` the token that it goes on from, if not the begin symbol.
    """
    observer, limits = TreeObserver(), np.array([limit])
    begun = None if first is None else [OutputStart(first)]
    ((best, *_),) = run_search(
        BeamSearch(model, config=settings, observer=observer), memory, limits=limits, starts=begun
    )
    alone = settings.model_copy(update={"beam_size": 1, "n_best": 1, "method": "beam_search"})
    ((greedy, *_),) = search(model, memory, limits=limits, config=alone, starts=begun)
    tree = observer.tree
    return SearchSeen(
        tree=tree,
        winner=tuple(tree.way_to(best.tokens, end=symbols.eos)),
        scores={
            (step, place): hypothesis_score(tree.steps[step][place].total, step + 1, settings.penalty)
            for step, place in tree.finished()
        },
        method=settings.method,
        best=best,
        greedy=greedy,
        greedy_way=tuple(tree.follow([*greedy.tokens, symbols.eos] if greedy.finished else greedy.tokens)),
    )
