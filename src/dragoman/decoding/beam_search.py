"""Beam search.

At each step the `beam` best continuations of a sentence are looked at: those that end are set aside, never to move
again, and the best `beam` that do not end go on. A sentence is over

- when `beam` hypotheses have ended (hence a beam of one is greedy search),
- when no open hypothesis can be among those to choose from, whatever it goes on with (this changes no result), or
- at its limit. What is open there is cut off, and returned behind the finished hypotheses if these are too few.

Sentences that are over leave the batch, and others may enter it: each has an age of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, final

import numpy as np

from dragoman.decoding.beam_candidates import (
    IMPOSSIBLE,
    Continuations,
    ask,
    begin,
    best_continuations,
    first_tokens,
    going_on,
)
from dragoman.decoding.config import SearchSettings
from dragoman.decoding.finished_hypotheses import Endings, Trail, cut_off, ended, none_yet
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import attainable
from dragoman.decoding.mbr import chosen
from dragoman.decoding.observer import SearchObserver, SearchStep
from dragoman.decoding.search_protocol import to_the_end
from dragoman.models.search_protocols import M, S, Searched
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Bool, Int


def beam_search(
    model: Searched[M, S],
    memory: M,
    *,
    limits: Int[np.ndarray, " batch"],
    settings: SearchSettings,
    symbols: Symbols,
    first: Int[np.ndarray, " batch"] | None = None,
    observer: SearchObserver | None = None,
) -> list[list[Hypothesis]]:
    """The `settings.best` best hypotheses for each sentence of the memory, best first.

    `limits` are the most tokens of an output of each sentence, the end symbol not counted. `first` are the tokens that
    the outputs go on from (the last ones of prompts), which are no part of them; the begin symbol without it. Raises
    RunError when logits are not numbers.
    """
    searching = BeamSearch(model, settings=settings, symbols=symbols, observer=observer)
    return to_the_end(searching, memory, limits=limits, first=first)


@dataclass(frozen=True)
class _Sentences(Generic[M, S]):
    """The sentences still searched for, by name; their hypotheses have `ages` tokens."""

    names: Int[np.ndarray, " kept"]
    ages: Int[np.ndarray, " kept"]
    limits: Int[np.ndarray, " kept"]
    memory: M
    state: S
    hypotheses: Continuations
    endings: Endings

    def keep(self, rows: Int[np.ndarray, " chosen"]) -> Self:
        """These sentences alone."""
        return type(self)(
            self.names[rows],
            self.ages[rows],
            self.limits[rows],
            self.memory.keep(rows),
            self.state.keep(rows),
            self.hypotheses.keep(rows),
            self.endings.keep(rows),
        )

    def join(self, other: Self) -> Self:
        """These sentences and the others after them."""
        return type(self)(
            np.concatenate([self.names, other.names]),
            np.concatenate([self.ages, other.ages]),
            np.concatenate([self.limits, other.limits]),
            self.memory.join(other.memory),
            self.state.join(other.state),
            self.hypotheses.join(other.hypotheses),
            self.endings.join(other.endings),
        )


class _Decided(NamedTuple):
    """What a step decides about its candidates, as `SearchStep` tells it."""

    ended: Bool[np.ndarray, "kept beam"]
    cut_off: Bool[np.ndarray, "kept beam"]


@final
class BeamSearch(Generic[M, S]):
    """Implements `progress.Search`: `beam_search` of sentences that come and go."""

    def __init__(
        self,
        model: Searched[M, S],
        *,
        settings: SearchSettings,
        symbols: Symbols,
        observer: SearchObserver | None = None,
    ) -> None:
        self._model = model
        self._settings = settings
        self._symbols = symbols
        self._observer = observer
        self._trail = Trail(settings.beam)
        self._open: _Sentences[M, S] | None = None

    def __len__(self) -> int:
        return 0 if self._open is None else len(self._open.names)

    def add(
        self, memory: M, *, limits: Int[np.ndarray, " batch"], first: Int[np.ndarray, " batch"] | None = None
    ) -> list[int]:
        beam = self._settings.beam
        names = self._trail.begin(len(limits))
        some = _Sentences(
            names,
            np.zeros_like(names),
            limits,
            memory,
            self._model.start(memory, beam=beam),
            begin(first_tokens(limits, first, symbols=self._symbols), beam),
            none_yet(len(limits), beam),
        )
        self._open = some if self._open is None else self._open.join(some)
        added: list[int] = names.tolist()
        return added

    def step(self) -> dict[int, list[Hypothesis]]:
        before = self._open
        assert before is not None, "there is a sentence to search for"
        candidates, state = self._candidates(before)
        going = going_on(candidates, beam=self._settings.beam, end=self._symbols.end)
        longer = candidates.take(going)
        decided = self._decide(before, candidates, longer)
        self._trail.append(before.names, before.ages, longer)
        endings = self._set_aside(before, candidates, decided)
        after = _Sentences(before.names, before.ages + 1, before.limits, before.memory, state, longer, endings)
        over = self._over(after)
        if self._observer is not None:
            self._observer.stepped(SearchStep(before.names, before.ages, candidates, going, *decided, over))
        return self._go_on(after, over)

    def drop(self, names: Sequence[int]) -> None:
        if self._open is None:
            return
        dropped = np.isin(self._open.names, names)
        self._trail.end(self._open.names[dropped])
        stay = (~dropped).nonzero()[0]
        self._open = self._open.keep(stay) if len(stay) else None

    def _candidates(self, some: _Sentences[M, S]) -> tuple[Continuations, S]:
        width = 2 * self._settings.beam
        log_probs, tokens, state = ask(
            self._model,
            some.hypotheses.tokens,
            some.memory,
            some.state,
            width=width,
            ages=some.ages,
            settings=self._settings,
            symbols=self._symbols,
        )
        return best_continuations(log_probs, tokens, some.hypotheses.log_probs, width=width), state

    def _decide(self, some: _Sentences[M, S], candidates: Continuations, longer: Continuations) -> _Decided:
        """Which candidates end, and which hypotheses are cut off; `longer` are the candidates that may go on."""
        beam = self._settings.beam
        ends = (candidates.tokens[:, :beam] == self._symbols.end) & (candidates.log_probs[:, :beam] > IMPOSSIBLE)
        stuck = (some.limits <= some.ages) | (longer.log_probs[:, 0] == IMPOSSIBLE)
        if not np.count_nonzero(stuck):
            return _Decided(ends, np.zeros(ends.shape, dtype=np.bool_))
        over_with = ((candidates.parents[:, :beam, None] == np.arange(beam)) & ends[..., None]).any(axis=1)
        return _Decided(ends, stuck[:, None] & ~over_with & (some.hypotheses.log_probs > IMPOSSIBLE))

    def _set_aside(self, some: _Sentences[M, S], candidates: Continuations, decided: _Decided) -> Endings:
        """The endings, with those of this step among them."""
        endings, scoring = some.endings, self._settings.normalisation
        if np.count_nonzero(decided.ended):
            endings = endings.merge(ended(candidates, some.ages, where=decided.ended, normalisation=scoring))
        if np.count_nonzero(decided.cut_off):
            endings = endings.merge(cut_off(some.hypotheses, some.ages, where=decided.cut_off, normalisation=scoring))
        return endings

    def _over(self, some: _Sentences[M, S]) -> Bool[np.ndarray, " kept"]:
        """The sentences of which every place to be returned is decided."""
        endings, open_ = some.endings, some.hypotheses.log_probs[:, 0]
        over = endings.finished.all(axis=1) | (some.limits < some.ages) | (open_ == IMPOSSIBLE)
        enough = endings.finished[:, self._settings.candidates - 1]
        if not np.count_nonzero(enough):
            return over
        best_to_come = attainable(
            open_,
            shortest=np.maximum(some.ages, self._settings.minimum_length) + 1,
            longest=some.limits + 1,
            normalisation=self._settings.normalisation,
        )
        return over | (enough & (best_to_come <= endings.scores[:, self._settings.candidates - 1]))

    def _go_on(self, some: _Sentences[M, S], over: Bool[np.ndarray, " kept"]) -> dict[int, list[Hypothesis]]:
        """Let sentences that are over leave, before the state of the others is rearranged, and say what was found."""
        found: dict[int, list[Hypothesis]] = {}
        if np.count_nonzero(over):
            rows = over.nonzero()[0]
            names = some.names[rows]
            hypotheses = self._trail.follow(names, some.endings.keep(rows), best=self._settings.candidates)
            self._trail.end(names)
            best = [chosen(candidates, self._settings) for candidates in hypotheses]
            found = dict(zip(names.tolist(), best, strict=True))
            if len(found) == len(over):
                self._open = None
                return found
            some = some.keep((~over).nonzero()[0])
        state = some.state.select(some.hypotheses.parents)
        self._open = _Sentences(some.names, some.ages, some.limits, some.memory, state, some.hypotheses, some.endings)
        return found
