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
from dragoman.decoding.constraints.allocate_beam import Choices, allocate
from dragoman.decoding.constraints.phrase_automaton import IMPOSSIBLE, START, PhraseAutomaton, PhraseState
from dragoman.decoding.search_base import NEG_INF, RowBatch
from dragoman.models.special_symbols import EOS, PAD


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
            allocate(candidates, rows, choices, self.has_banks()[rows], beam=before.log_probs.shape[1])
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
        number, beam, best = len(rows), tokens.shape[1], tokens.shape[2] - len(columns)
        automata = [self._automaton(row) for row in rows]
        states = [self.states[row] for row in rows]
        own = tokens[..., :best].reshape(number, -1)
        standings = self._standings_of_others(rows, own)
        for place, column in np.argwhere(_are_special(automata, own)).tolist():
            automaton, state, token = automata[place], states[place][column // best], int(own[place, column])
            is_extra = token in automaton.next_tokens(state)
            standings[place, column] = IMPOSSIBLE if is_extra else automaton.standing(automaton.advance(state, token))
        more, where = _extra_choices(automata, states, columns)
        ids = np.concatenate([own, more[..., 0]], axis=1, dtype=tokens.dtype, casting="unsafe")
        parents = np.concatenate([np.tile(np.arange(beam).repeat(best), (number, 1)), where[0]], axis=1)
        places = np.arange(number)[:, None]
        own_log_probs = log_probs[..., :best].reshape(number, -1)
        numbers = np.concatenate([own_log_probs, log_probs[places, where[0], where[1]]], axis=1)
        banks, costs = np.moveaxis(np.concatenate([standings, more[..., 1:]], axis=1), -1, 0)
        after = np.where(banks < 0, NEG_INF, totals[places, parents] + numbers)
        return Choices(ids, parents.astype(tokens.dtype), numbers, after, banks, costs)

    def _standings_of_others(
        self, rows: Sequence[int], tokens: Int[np.ndarray, "rows choices"]
    ) -> Float[np.ndarray, "rows choices fields"]:
        """Return the standings after tokens as if none were in the alphabet of its automaton."""
        automata = [self._automaton(row) for row in rows]
        others = np.array([[*map(one.other_tokens, self.states[row])] for row, one in zip(rows, automata, strict=True)])
        others = others.repeat(tokens.shape[1] // others.shape[1], axis=1)
        kinds = np.array([one.boundaries[own] for one, own in zip(automata, tokens, strict=True)])
        return np.take_along_axis(others, kinds[..., None, None], axis=2)[:, :, 0]

    def _automaton(self, row: int) -> PhraseAutomaton:
        automaton = self.automata[row]
        assert automaton is not None, "this sentence has constraints"
        return automaton


def _extra_choices(
    automata: Sequence[PhraseAutomaton], states: Sequence[Sequence[PhraseState]], columns: dict[int, int]
) -> tuple[Float[np.ndarray, "rows extra fields"], Int[np.ndarray, "places rows extra"]]:
    """Return the tokens that begin or continue a phrase with their standings, and their hypotheses and columns."""
    found = []
    for automaton, own in zip(automata, states, strict=True):
        pairs = [(beam, one) for beam, state in enumerate(own) for one in automaton.extra_choices(state)]
        found.append([(token, bank, cost, beam, columns[token]) for beam, (token, bank, cost) in pairs])
    most = max(map(len, found))
    padded = [[*some, *[(PAD, *IMPOSSIBLE, 0, 0)] * (most - len(some))] for some in found]
    both = np.array(padded, dtype=np.float64).reshape(len(found), most, 5)
    return both[..., :3], np.moveaxis(both[..., 3:].astype(np.int64), -1, 0)


def _are_special(
    automata: Sequence[PhraseAutomaton], tokens: Int[np.ndarray, "rows choices"]
) -> Bool[np.ndarray, "rows choices"]:
    """Return which tokens are in the alphabets of the automata."""
    longest = max(len(one.alphabet) for one in automata)
    padded = np.full((len(automata), 1, longest), -1)
    for place, one in enumerate(automata):
        padded[place, 0, : len(one.alphabet)] = one.alphabet
    return (tokens[..., None] == padded).any(axis=-1)
