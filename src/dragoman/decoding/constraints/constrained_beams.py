"""Hypotheses of a beam under constraints, chosen by dynamic beam allocation.

Hypotheses with equally many tokens of required phrases share a bank. The beam takes the best hypothesis of each bank,
then the second of each, and so on (Hu et al., 2019), so that hypotheses with phrases are not lost to more probable ones
without. Their next tokens are the most probable ones, and the tokens that begin or continue a phrase.

Without required phrases there is one bank, and the beam takes its hypotheses as it does without constraints. Preferred
phrases change the order: the log-probability of a hypothesis counts less their bonuses that it lacks.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.beam_hypotheses import BeamCandidates
from dragoman.decoding.constraints.allocate_beam import Choices, allocate, write
from dragoman.decoding.constraints.phrase_automaton import START, PhraseAutomaton, PhraseState, Standing
from dragoman.decoding.search_base import NEG_INF, RowBatch
from dragoman.models.special_symbols import EOS


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

    def has_banks(self) -> Bool[np.ndarray, " kept"]:
        """Return which sentences have required phrases, and hence banks."""
        return np.array([one is not None and one.required != 0 for one in self.automata])

    def extra_tokens(self) -> tuple[int, ...]:
        """Return the tokens that begin or continue a phrase of any hypothesis."""
        tokens: set[int] = set()
        for automaton, states in zip(self.automata, self.states, strict=True):
            if automaton is not None:
                tokens.update(*map(automaton.next_tokens, set(states)))
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
        rows = [row for row in self.rows if row not in forced]
        if rows:
            first_extra = tokens.shape[-1] - len(extra)
            columns = {token: first_extra + place for place, token in enumerate(extra)}
            choices = self._choices(rows, log_probs[rows], tokens[rows], before.log_probs[rows], columns)
            beam = before.log_probs.shape[1]
            write(candidates, rows, choices, allocate(choices, self.has_banks()[rows], beam_size=beam))
        return candidates

    def advance(self, hypotheses: BeamCandidates) -> Self:
        """Return the states after the tokens of the hypotheses of the next step."""
        states = list(self.states)
        for row in self.rows:
            automaton, own = self._automaton(row), self.states[row]
            pairs = zip(hypotheses.parents[row].tolist(), hypotheses.tokens[row].tolist(), strict=True)
            states[row] = tuple(
                automaton.advance(own[parent], token) or automaton.read(own[parent], token) for parent, token in pairs
            )
        return replace(self, states=tuple(states))

    def met(self) -> Bool[np.ndarray, "kept beam"]:
        """Return which hypotheses have all phrases that they need, if they end here."""
        return np.array(
            [
                [automaton is None or automaton.advance(state, EOS) is not None for state in states]
                for automaton, states in zip(self.automata, self.states, strict=True)
            ]
        )

    def costs(self) -> Float[np.ndarray, "kept beam"] | None:
        """Return what hypotheses lack of the bonuses of preferred phrases, if they end here; None if nothing."""
        found = np.zeros((len(self.states), len(self.states[0])))
        for row in self.rows:
            automaton = self._automaton(row)
            if automaton.has_bonus:
                ended = (automaton.read(state, EOS) for state in self.states[row])
                found[row] = [automaton.standing(state).cost for state in ended]
        return found if found.any() else None

    def returnable(self, finished: Bool[np.ndarray, "kept places"]) -> Bool[np.ndarray, "kept beam"]:
        """Return which hypotheses may be returned unfinished: with all phrases, or any if the sentence has no better.

        `finished` are the places of finished hypotheses, which have all phrases.
        """
        met = self.met()
        return met | ~(met.any(axis=1, keepdims=True) | finished.any(axis=1, keepdims=True))

    def _choices(
        self,
        rows: Sequence[int],
        log_probs: Float[np.ndarray, "rows beam columns"],
        tokens: Int[np.ndarray, "rows beam columns"],
        totals: Float[np.ndarray, "rows beam"],
        columns: dict[int, int],
    ) -> Choices:
        """Return the next tokens of the hypotheses of constrained sentences, with their standings.

        These are the best ones, and the tokens that begin or continue a phrase.
        """
        best = tokens.shape[-1] - len(columns)
        own = tokens[..., :best]
        standings = self._standings_of_others(rows, own)
        special = self._is_special(rows, own)
        more: list[list[tuple[int, int, float, Standing]]] = [[] for _ in rows]
        seen: set[tuple[int, int, int]] = set()
        for place, beam, column in zip(*(axis.tolist() for axis in special.nonzero()), strict=True):
            automaton, token = self._automaton(rows[place]), int(own[place, beam, column])
            state = automaton.advance(self.states[rows[place]][beam], token)
            standings[place, beam, column] = automaton.standing(state)
            seen.add((place, beam, token))
        possible = totals > NEG_INF
        for place, row in enumerate(rows):
            automaton = self._automaton(row)
            for beam in possible[place].nonzero()[0].tolist():
                state = self.states[row][beam]
                for token in automaton.next_tokens(state):
                    if (place, beam, token) not in seen:
                        after = automaton.standing(automaton.advance(state, token))
                        log_prob = float(log_probs[place, beam, columns[token]])
                        more[place].append((beam, token, log_prob, after))
        return Choices.of(log_probs[..., :best], own, totals, standings, more)

    def _standings_of_others(
        self, rows: Sequence[int], tokens: Int[np.ndarray, "rows beam best"]
    ) -> Float[np.ndarray, "rows beam best fields"]:
        """Return the standings after tokens as if none were in the alphabet of its automaton."""
        automata = [self._automaton(row) for row in rows]
        others = np.array(
            [[one.other_tokens(state) for state in self.states[row]] for row, one in zip(rows, automata, strict=True)]
        )
        at_boundary = np.stack([one.boundaries[own] for one, own in zip(automata, tokens, strict=True)])
        return np.where(at_boundary[..., None], others[:, :, None, 1], others[:, :, None, 0])

    def _is_special(
        self, rows: Sequence[int], tokens: Int[np.ndarray, "rows beam best"]
    ) -> Bool[np.ndarray, "rows beam best"]:
        """Return which tokens are in the alphabets of the automata."""
        alphabets = [self._automaton(row).alphabet for row in rows]
        padded = np.full((len(rows), max(map(len, alphabets))), -1)
        for place, one in enumerate(alphabets):
            padded[place, : len(one)] = one
        return (tokens[..., None] == padded[:, None, None]).any(axis=-1)

    def _automaton(self, row: int) -> PhraseAutomaton:
        automaton = self.automata[row]
        assert automaton is not None, "this sentence has constraints"
        return automaton
