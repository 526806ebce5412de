"""Hypotheses of a beam under constraints, chosen by dynamic beam allocation.

Hypotheses with equally many tokens of required phrases share a bank. The beam takes the best hypothesis of each bank,
then the second of each, and so on (Hu et al., 2019), so that hypotheses with phrases are not lost to more probable ones
without. Their next tokens are the most probable ones, and the tokens that begin or continue a phrase.

Without required phrases there is one bank, and the beam takes its hypotheses as it does without constraints. Preferred
phrases change the order: the log-probability of a hypothesis counts less their bonuses that it lacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.beam_hypotheses import BeamCandidates
from dragoman.decoding.constraints.allocate_beam import allocate
from dragoman.decoding.constraints.phrase_automaton import FORBIDDEN, START, PhraseAutomaton
from dragoman.decoding.constraints.sentence_choices import best_choices, phrase_choices
from dragoman.decoding.search_base import NEG_INF, RowBatch
from dragoman.models.special_symbols import EOS, PAD


@final
@dataclass(frozen=True)
class ConstrainedBeams(RowBatch):
    """Automata of sentences, None for those without constraints, and the states of their hypotheses."""

    automata: tuple[PhraseAutomaton | None, ...]
    states: tuple[tuple[int, ...], ...]

    @classmethod
    def begin(cls, automata: Sequence[PhraseAutomaton | None], beam_size: int) -> Self:
        """Return the states before the first token."""
        return cls(tuple(automata), ((START,) * beam_size,) * len(automata))

    @property
    def constrained(self) -> list[tuple[int, PhraseAutomaton]]:
        """Sentences with constraints: their rows and automata."""
        return [(row, one) for row, one in enumerate(self.automata) if one is not None]

    def extra_tokens(self) -> tuple[int, ...]:
        """Return the tokens that begin or continue a phrase of any hypothesis."""
        tokens: set[int] = set()
        for row, automaton in self.constrained:
            for state in set(self.states[row]):
                tokens.update(automaton.continuations(state))
        return tuple(sorted(tokens))

    def choose(
        self,
        rows: Sequence[int],
        log_probs: Float[np.ndarray, "kept beam columns"],
        tokens: Int[np.ndarray, "kept beam columns"],
        before: BeamCandidates,
        *,
        extra: Sequence[int],
        width: int,
    ) -> BeamCandidates:
        """Return the candidates of these sentences, which have constraints, in `width` columns.

        `tokens` are the next tokens of each hypothesis, the last ones `extra`, and `before` the hypotheses. Finished
        candidates come first, then open ones, better before worse.
        """
        beam, columns = tokens.shape[1:]
        totals = before.log_probs[..., None] + log_probs
        best = columns - len(extra)
        extra_columns = dict(zip(extra, range(best, columns), strict=True))
        parts = tokens[rows, :, :best].tolist(), totals[rows, :, :best].tolist()
        found = []
        for row, own_tokens, own_totals in zip(rows, *parts, strict=True):
            automaton, states = self._automaton(row), self.states[row]
            firsts = range(row * beam * columns, (row + 1) * beam * columns, columns)
            choices = best_choices(automaton, states, firsts, own_tokens, totals=own_totals)
            choices += phrase_choices(automaton, states, firsts, extra_columns, total_at=totals.item)
            choices.sort()
            taken = allocate(choices, beam=beam, has_banks=automaton.required != 0)
            found.append([place for *_, place in taken] + [-1] * (width - len(taken)))
        indices = np.array(found)
        is_taken = indices >= 0
        return BeamCandidates(
            np.where(is_taken, tokens.take(indices), PAD),
            np.where(is_taken, indices // columns % beam, 0).astype(tokens.dtype),
            np.where(is_taken, log_probs.take(indices), NEG_INF),
            np.where(is_taken, totals.take(indices), NEG_INF),
        )

    def advance(self, hypotheses: BeamCandidates) -> Self:
        """Return the states after the tokens of the hypotheses of the next step."""
        constrained = self.constrained
        if not constrained:
            return self
        states, parents, tokens = list(self.states), hypotheses.parents.tolist(), hypotheses.tokens.tolist()
        for row, automaton in constrained:
            own = states[row]
            pairs = zip(parents[row], tokens[row], strict=True)
            states[row] = tuple([automaton.read(own[parent], token) for parent, token in pairs])
        return replace(self, states=tuple(states))

    def met(self) -> Bool[np.ndarray, "kept beam"]:
        """Return which hypotheses have all phrases that they need, if they end here."""
        found = np.ones((len(self.states), len(self.states[0])), dtype=np.bool_)
        for row, automaton in self.constrained:
            found[row] = [automaton.advance(state, EOS) != FORBIDDEN for state in self.states[row]]
        return found

    def costs(self) -> Float[np.ndarray, "kept beam"] | None:
        """Return what hypotheses lack of the bonuses of preferred phrases, if they end here; None if nothing."""
        rewarded = [(row, one) for row, one in self.constrained if one.has_bonus]
        if not rewarded:
            return None
        found = np.zeros((len(self.states), len(self.states[0])))
        for row, automaton in rewarded:
            found[row] = [automaton.costs[automaton.read(state, EOS)] for state in self.states[row]]
        return found

    def returnable(
        self, possible: Bool[np.ndarray, "kept beam"], finished: Bool[np.ndarray, "kept places"]
    ) -> Bool[np.ndarray, "kept beam"]:
        """Return which of the `possible` hypotheses may be returned unfinished.

        They have all phrases, or the sentence has none that has. `finished` are the places of finished hypotheses,
        which have all phrases.
        """
        met = self.met() & possible
        return met | (possible & ~(met.any(axis=1, keepdims=True) | finished.any(axis=1, keepdims=True)))

    def _automaton(self, row: int) -> PhraseAutomaton:
        automaton = self.automata[row]
        assert automaton is not None, "this sentence has constraints"
        return automaton
