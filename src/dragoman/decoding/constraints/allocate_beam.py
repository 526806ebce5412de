"""Allocation of a beam to the banks of constrained sentences, for all sentences of a batch at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.beam_hypotheses import BeamCandidates
from dragoman.decoding.constraints.phrase_automaton import Standing
from dragoman.decoding.search_base import NEG_INF
from dragoman.models.special_symbols import EOS, PAD


@final
@dataclass(frozen=True)
class Choices:
    """Hypotheses that a step of the search can make of those of each sentence, in any order.

    An impossible one has a log-probability of minus infinity.
    """

    tokens: Int[np.ndarray, "rows choices"]
    parents: Int[np.ndarray, "rows choices"]
    token_log_probs: Float[np.ndarray, "rows choices"]
    log_probs: Float[np.ndarray, "rows choices"]
    banks: Int[np.ndarray, "rows choices"]
    met: Int[np.ndarray, "rows choices"]
    """How many required phrases have appeared."""
    costs: Float[np.ndarray, "rows choices"]
    """What the output lacks of the bonuses of preferred phrases."""

    @classmethod
    def of(
        cls,
        log_probs: Float[np.ndarray, "rows beam best"],
        tokens: Int[np.ndarray, "rows beam best"],
        totals: Float[np.ndarray, "rows beam"],
        standings: Float[np.ndarray, "rows beam best fields"],
        more: Sequence[Sequence[tuple[int, int, float, Standing]]],
    ) -> Self:
        """Return the choices after the best tokens of each hypothesis and after `more` tokens.

        `totals` are the log-probabilities of the hypotheses; `more` has the hypothesis, the token, its log-probability
        and its standing.
        """
        rows, beam, best = tokens.shape
        width = beam * best + max(map(len, more))
        found = cls(
            np.full((rows, width), PAD, dtype=tokens.dtype),
            np.zeros((rows, width), dtype=tokens.dtype),
            np.full((rows, width), NEG_INF),
            np.full((rows, width), NEG_INF),
            np.full((rows, width), -1),
            np.zeros((rows, width), dtype=np.int64),
            np.zeros((rows, width)),
        )
        part = (slice(None), slice(beam * best))
        found.tokens[part] = tokens.reshape(rows, -1)
        found.parents[part] = np.repeat(np.arange(beam), best)
        found.token_log_probs[part] = log_probs.reshape(rows, -1)
        found.banks[part], found.met[part], found.costs[part] = np.moveaxis(standings.reshape(rows, -1, 3), -1, 0)
        for row, some in enumerate(more):
            if some:
                parents, ids, numbers, after = zip(*some, strict=True)
                own = (row, slice(beam * best, beam * best + len(some)))
                found.parents[own], found.tokens[own], found.token_log_probs[own] = parents, ids, numbers
                found.banks[own], found.met[own], found.costs[own] = zip(*after, strict=True)
        found.log_probs[:] = np.take_along_axis(totals, found.parents, axis=1) + found.token_log_probs
        found.log_probs[found.banks < 0] = NEG_INF
        return found


def allocate(
    choices: Choices, has_banks: Bool[np.ndarray, " rows"], *, beam_size: int
) -> list[tuple[list[int], list[int]]]:
    """Return for each sentence the indices of the choices that finish, and of those that stay open, best first.

    `has_banks` are the sentences with required phrases. There, `beam_size` open choices are taken: the best of the
    fullest bank, then the best of each bank, the second of each, and so on; those with the end symbol that come before
    the last of them finish. One choice of the fullest bank with most phrases is always taken: whatever its probability,
    the phrases appear in about as many steps as they have tokens. In other sentences the best `beam_size` choices
    finish, if they have the end symbol.
    """
    ranks = choices.costs - choices.log_probs
    possible = choices.log_probs > NEG_INF
    levels = np.where(has_banks[:, None], _levels(choices, ranks), 0)
    order = np.lexsort((choices.parents, choices.tokens, ranks, levels), axis=1)
    at_end = np.take_along_axis(choices.tokens == EOS, order, axis=1)
    is_open = ~at_end & np.take_along_axis(possible, order, axis=1)
    opened = is_open & (is_open.cumsum(axis=1) <= beam_size)
    before = np.where(has_banks[:, None], is_open.cumsum(axis=1), np.arange(order.shape[1])) < beam_size
    finished = at_end & np.take_along_axis(possible, order, axis=1) & before
    found = []
    for row, own in enumerate(order):
        taken = own[opened[row]]
        ended = own[finished[row]]
        if has_banks[row] and len(taken):
            if not len(ended):
                taken = _with_most_phrases(choices, row, ranks[row], taken)
            ended, taken = (one[np.argsort(ranks[row, one], kind="stable")] for one in (ended, taken))
        found.append((ended[:beam_size].tolist(), taken.tolist()))
    return found


def _levels(choices: Choices, ranks: Float[np.ndarray, "rows choices"]) -> Int[np.ndarray, "rows choices"]:
    """Return the place of each choice in its bank; the best one of the fullest bank comes before all."""
    order = np.lexsort((choices.parents, choices.tokens, ranks, choices.banks), axis=1)
    banks = np.take_along_axis(choices.banks, order, axis=1)
    places = np.broadcast_to(np.arange(order.shape[1]), order.shape)
    is_first = np.ones(order.shape, dtype=np.bool_)
    is_first[:, 1:] = banks[:, 1:] != banks[:, :-1]
    first = np.maximum.accumulate(np.where(is_first, places, 0), axis=1)
    sorted_ = places - first
    np.put_along_axis(sorted_, first[:, -1:], -1, axis=1)
    levels = np.empty_like(sorted_)
    np.put_along_axis(levels, order, sorted_, axis=1)
    return levels


def _with_most_phrases(
    choices: Choices, row: int, ranks: Float[np.ndarray, " choices"], taken: Int[np.ndarray, " opened"]
) -> Int[np.ndarray, " opened"]:
    """Return the open choices with one of the fullest bank that has most phrases, in place of the last if needed."""
    banks, met = choices.banks[row], choices.met[row]
    fullest = ((banks == banks.max()) & (choices.tokens[row] != EOS)).nonzero()[0]
    if len(fullest):
        most = fullest[np.lexsort((ranks[fullest], -met[fullest]))[0]]
        if (met[taken] < met[most]).all():
            taken[-1] = most
    return taken


def write(
    candidates: BeamCandidates, rows: Sequence[int], choices: Choices, chosen: Sequence[tuple[list[int], list[int]]]
) -> None:
    """Write the chosen candidates into their rows, finished before open ones, and impossible ones behind them."""
    candidates.log_probs[rows], candidates.token_log_probs[rows] = NEG_INF, NEG_INF
    candidates.tokens[rows], candidates.parents[rows] = PAD, 0
    for place, (row, (finished, opened)) in enumerate(zip(rows, chosen, strict=True)):
        own = [*finished, *opened]
        part = (row, slice(len(own)))
        candidates.tokens[part], candidates.parents[part] = choices.tokens[place, own], choices.parents[place, own]
        candidates.token_log_probs[part] = choices.token_log_probs[place, own]
        candidates.log_probs[part] = choices.log_probs[place, own]
