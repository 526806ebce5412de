"""Hypotheses of a beam under constraints, chosen by dynamic beam allocation.

Hypotheses with equally many tokens of phrases share a bank. The beam takes the best hypothesis of each bank, then the
second of each, and so on (Hu et al., 2019), so that hypotheses with phrases are not lost to more probable ones without.
Their next tokens are the most probable ones, and the tokens that begin or continue a phrase.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import NamedTuple, Self, final

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.beam_hypotheses import BeamCandidates
from dragoman.decoding.constraints.phrase_automaton import START, PhraseAutomaton, PhraseState
from dragoman.decoding.search_base import NEG_INF, RowBatch
from dragoman.models.special_symbols import EOS, PAD


class _Candidate(NamedTuple):
    log_prob: float
    token: int
    parent: int
    token_log_prob: float
    met: int
    """Phrases that have appeared: their bits."""


@final
@dataclass(frozen=True)
class ConstrainedBeams(RowBatch):
    """Automata of sentences, None for those without constraints, and the states of their hypotheses."""

    automata: tuple[PhraseAutomaton | None, ...]
    states: tuple[tuple[PhraseState, ...], ...]

    @classmethod
    def begin(cls, automata: Sequence[PhraseAutomaton | None], beam_size: int) -> Self:
        """Return the states before the first token."""
        return cls(tuple(automata), ((START,) * beam_size,) * len(automata))

    @property
    def rows(self) -> list[int]:
        """Sentences with constraints."""
        return [row for row, one in enumerate(self.automata) if one is not None]

    def extra_tokens(self) -> tuple[int, ...]:
        """Return the tokens that begin or continue a phrase of any hypothesis."""
        tokens: set[int] = set()
        for automaton, states in zip(self.automata, self.states, strict=True):
            if automaton is not None:
                tokens.update(*(automaton.next_tokens(state) for state in states))
        return tuple(sorted(tokens))

    def choose(
        self,
        candidates: BeamCandidates,
        log_probs: Float[np.ndarray, "kept beam columns"],
        tokens: Int[np.ndarray, "kept beam columns"],
        before: BeamCandidates,
        *,
        extra: Sequence[int],
        forced: Collection[int],
    ) -> BeamCandidates:
        """Return the candidates with those of constrained sentences chosen anew; rows in `forced` stay as they are.

        `tokens` are the next tokens of each hypothesis, the last ones `extra`, and `before` the hypotheses. Finished
        candidates come first, then open ones, better before worse.
        """
        first_extra = tokens.shape[-1] - len(extra)
        columns = {token: first_extra + place for place, token in enumerate(extra)}
        for row in self.rows:
            if row not in forced:
                next_tokens = self._next_tokens(row, log_probs[row], tokens[row, :, :first_extra], columns)
                _write(candidates, row, self._choose(row, next_tokens, before.log_probs[row]))
        return candidates

    def advance(self, hypotheses: BeamCandidates) -> Self:
        """Return the states after the tokens of the hypotheses of the next step."""
        states = list(self.states)
        for row in self.rows:
            automaton, own = self._automaton(row), self.states[row]
            pairs = zip(hypotheses.parents[row].tolist(), hypotheses.tokens[row].tolist(), strict=True)
            states[row] = tuple(automaton.read(own[parent], token) for parent, token in pairs)
        return replace(self, states=tuple(states))

    def met(self) -> Bool[np.ndarray, "kept beam"]:
        """Return which hypotheses have all phrases that they need, if they end here."""
        return np.array(
            [
                [automaton is None or automaton.advance(state, EOS) is not None for state in states]
                for automaton, states in zip(self.automata, self.states, strict=True)
            ]
        )

    def returnable(self, finished: Bool[np.ndarray, "kept places"]) -> Bool[np.ndarray, "kept beam"]:
        """Return which hypotheses may be returned unfinished: with all phrases, or any if the sentence has no better.

        `finished` are the places of finished hypotheses, which have all phrases.
        """
        met = self.met()
        return met | ~(met.any(axis=1, keepdims=True) | finished.any(axis=1, keepdims=True))

    def _next_tokens(
        self,
        row: int,
        log_probs: Float[np.ndarray, "beam columns"],
        best: Int[np.ndarray, "beam best"],
        columns: Mapping[int, int],
    ) -> list[dict[int, float]]:
        """Return the next tokens of each hypothesis of a sentence with their log-probabilities.

        These are the best ones, and the tokens that begin or continue a phrase.
        """
        automaton = self._automaton(row)
        found = []
        for state, tokens, numbers in zip(self.states[row], best.tolist(), log_probs.tolist(), strict=True):
            own = dict(zip(tokens, numbers, strict=False))
            own.update((token, numbers[columns[token]]) for token in automaton.next_tokens(state))
            found.append(own)
        return found

    def _choose(
        self, row: int, next_tokens: Sequence[Mapping[int, float]], totals: Float[np.ndarray, " beam"]
    ) -> list[_Candidate]:
        """Return the candidates of a sentence that finish or continue."""
        automaton = self._automaton(row)
        banks: dict[int, list[_Candidate]] = defaultdict(list)
        for parent, (state, tokens, total) in enumerate(zip(self.states[row], next_tokens, totals, strict=True)):
            if total == NEG_INF:
                continue
            for token, log_prob in tokens.items():
                after = automaton.advance(state, token) if log_prob > NEG_INF else None
                if after is not None:
                    candidate = _Candidate(float(total + np.float32(log_prob)), token, parent, log_prob, after.met)
                    banks[automaton.bank(after)].append(candidate)
        return allocate(banks, beam_size=len(next_tokens))

    def _automaton(self, row: int) -> PhraseAutomaton:
        automaton = self.automata[row]
        assert automaton is not None, "this sentence has constraints"
        return automaton


def allocate(banks: Mapping[int, Sequence[_Candidate]], *, beam_size: int) -> list[_Candidate]:
    """Return finished candidates, then `beam_size` open ones: the best of each bank, the second of each, and so on.

    The best of the fullest bank comes first. One hypothesis of this bank with most phrases is always in the beam:
    whatever its probability, the phrases appear in about as many steps as they have tokens.
    """
    if not banks:
        return []
    ranked = {bank: sorted(some, key=_order) for bank, some in banks.items()}
    fullest = ranked[max(banks)]
    levels = zip_longest(*ranked.values())
    others = (one for level in levels for one in sorted(filter(None, level), key=_order) if one is not fullest[0])
    finished: list[_Candidate] = []
    opened: list[_Candidate] = []
    for one in chain(fullest[:1], others):
        (finished if one.token == EOS else opened).append(one)
        if len(opened) == beam_size:
            break
    most = min((one for one in fullest if one.token != EOS), key=lambda one: -one.met.bit_count(), default=None)
    if most is not None and not finished and all(one.met.bit_count() < most.met.bit_count() for one in opened):
        opened[-1] = most
    return [*sorted(finished, key=_order)[:beam_size], *sorted(opened, key=_order)]


def _order(candidate: _Candidate) -> tuple[float, int, int]:
    return -candidate.log_prob, candidate.token, candidate.parent


def _write(candidates: BeamCandidates, row: int, chosen: Sequence[_Candidate]) -> None:
    """Write the chosen candidates into a row, and impossible ones behind them."""
    candidates.log_probs[row], candidates.token_log_probs[row] = NEG_INF, NEG_INF
    candidates.tokens[row], candidates.parents[row] = PAD, 0
    for place, one in enumerate(chosen):
        candidates.tokens[row, place], candidates.parents[row, place] = one.token, one.parent
        candidates.token_log_probs[row, place] = one.token_log_prob
        candidates.log_probs[row, place] = one.log_prob
