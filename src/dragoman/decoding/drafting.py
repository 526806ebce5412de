"""Greedy search that guesses ahead: several tokens are asked about at a time, and those that were guessed right stay.

A guess changes no output: a token is written only if the network, asked after all that stands before it, finds it the
most probable one (Stern et al., 2018; Leviathan et al., 2023, at a temperature of zero). What is found is what `greedy`
finds, to the last bit where the network gives a row the same bits whatever is computed beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, final, runtime_checkable

import numpy as np

from dragoman.decoding.beam_candidates import IMPOSSIBLE, forbidden
from dragoman.decoding.config import SearchSettings
from dragoman.decoding.greedy import one_step
from dragoman.decoding.greedy_state import Rows, Sentences
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.models.search_protocols import M, M_contra, Searched, Traceable
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Float, Int

LONGEST = 8
"""Tokens that are guessed ahead at most."""
ROWS = 16
"""Rows of a pass above which nothing is guessed: weights are read once for all, but there is other work for each."""
TRIAL = 64
"""Tokens that are guessed before it is judged whether guessing pays."""
LEAST = 0.25
"""The share of guesses that must be right for guessing to go on."""


@runtime_checkable
class Draft(Protocol):
    """Guesses about one output, which is told what has been written."""

    def propose(self, count: int) -> list[int]:
        """How the output may go on, in at most so many tokens; nothing where there is no idea."""
        ...

    def accept(self, tokens: Sequence[int]) -> None:
        """These tokens came next."""
        ...


@final
class Acceptance:
    """How many guesses were right, of all that were made for a network."""

    def __init__(self) -> None:
        self.proposed = 0
        self.accepted = 0

    @property
    def pays(self) -> bool:
        """Whether to go on guessing."""
        return self.proposed < TRIAL or self.accepted >= LEAST * self.proposed


@runtime_checkable
class Drafting(Searched[M_contra, Traceable], Protocol[M_contra]):
    """A network that can be asked about several tokens of an output at once, and that has guesses."""

    acceptance: Acceptance

    def drafts(self, memory: M_contra) -> Sequence[Draft]:
        """Those of each sentence."""
        ...

    def follow(
        self,
        tokens: Int[np.ndarray, "batch places"],
        lengths: Int[np.ndarray, " batch"],
        memory: M_contra,
        state: Traceable,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> tuple[Float[np.ndarray, "rows width"], Int[np.ndarray, "rows width"], Any]:
        """What `best` gives after each of the first `lengths` tokens of each sentence, and the state after all."""
        ...


@final
class DraftingSearch(Generic[M]):
    """Implements `progress.Search`: what `GreedySearch` finds, some steps at a time."""

    def __init__(self, model: Drafting[M], *, settings: SearchSettings, symbols: Symbols) -> None:
        self._model = model
        self._settings = settings
        self._symbols = symbols
        self._rows = Rows(model, settings=settings, symbols=symbols)

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, memory: M, *, limits: Int[np.ndarray, " batch"], first: Int[np.ndarray, " batch"] | None = None
    ) -> list[int]:
        return self._rows.add(memory, limits=limits, first=first)

    def step(self) -> dict[int, list[Hypothesis]]:
        if not self._model.acceptance.pays:
            return one_step(self._model, self._rows, settings=self._settings, symbols=self._symbols)
        some = self._rows.open
        guesses = self._guesses(some)
        lengths = np.array([len(guess) + 1 for guess in guesses])
        found, state = self._asked(some, guesses, lengths)
        written = [
            self._write(some, row, guess, found[end - length : end])
            for row, (guess, length, end) in enumerate(zip(guesses, lengths, np.cumsum(lengths), strict=True))
        ]
        taken = np.array([len(tokens) for tokens, _ in written])
        over = np.array([is_over for _, is_over in written])
        after = replace(
            some,
            ages=some.ages + taken,
            tokens=np.array([tokens[-1] for tokens, _ in written], dtype=some.tokens.dtype),
            state=state.back(lengths - taken) if (lengths > taken).any() else state,
        )
        return self._rows.without(after, over)

    def drop(self, names: Sequence[int]) -> None:
        self._rows.drop(names)

    def _guesses(self, some: Sentences[M, Traceable]) -> list[list[int]]:
        """What is guessed for each sentence, no further than its limit."""
        count = min(LONGEST, ROWS // len(some.names) - 1)
        if count < 1:
            return [[]] * len(some.names)
        rooms = np.minimum(count, some.limits - some.ages).tolist()
        drafts = self._model.drafts(some.memory)
        return [draft.propose(room) if room > 0 else [] for draft, room in zip(drafts, rooms, strict=True)]

    def _asked(
        self, some: Sentences[M, Traceable], guesses: Sequence[Sequence[int]], lengths: Int[np.ndarray, " batch"]
    ) -> tuple[list[tuple[int, float]], Any]:
        """The best token and its log-probability after each, sentence by sentence."""
        tokens = np.zeros((len(lengths), int(lengths.max())), dtype=np.int32)
        for row, last, guess in zip(tokens, some.tokens.tolist(), guesses, strict=True):
            row[: len(guess) + 1] = [last, *guess]
        ages = np.concatenate([age + np.arange(length) for age, length in zip(some.ages, lengths, strict=True)])
        too_soon = ages < self._settings.minimum_length
        never = forbidden(0, minimum_length=0, allow_unknown=self._settings.allow_unknown, symbols=self._symbols)
        log_probs, ids, state = self._model.follow(
            tokens, lengths, some.memory, some.state, width=1 + int(too_soon.any()), forbidden=never
        )
        place = (too_soon & (ids[:, 0] == self._symbols.end)).astype(int)
        rows = np.arange(len(ages))
        return list(zip(ids[rows, place].tolist(), log_probs[rows, place].tolist(), strict=True)), state

    def _write(
        self, some: Sentences[M, Traceable], row: int, guess: Sequence[int], found: Sequence[tuple[int, float]]
    ) -> tuple[list[int], bool]:
        """The tokens that a sentence goes on with, and whether it is over with them."""
        name, limit, age = (int(part[row]) for part in (some.names, some.limits, some.ages))
        tokens: list[int] = []
        over = False
        for place, (token, log_prob) in enumerate(found):
            ends = token == self._symbols.end
            cut = (limit <= age + place and not ends) or log_prob == IMPOSSIBLE
            tokens.append(token)
            if not cut:
                self._rows.write(name, token, log_prob)
            over = cut or ends
            if over or place == len(guess) or guess[place] != token:
                break
        self._model.acceptance.proposed += len(guess)
        self._model.acceptance.accepted += len(tokens) - 1
        self._model.drafts(some.memory)[row].accept(tokens)
        return tokens, over
