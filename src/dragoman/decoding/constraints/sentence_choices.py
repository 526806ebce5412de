"""Choices of a constrained sentence: the best next tokens of its hypotheses, and the tokens of its phrases.

Plain Python, like `allocate_beam`: arrays of so few elements take longer than lists.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import inf

from dragoman.decoding.constraints.allocate_beam import Choice
from dragoman.decoding.constraints.phrase_automaton import FORBIDDEN, PhraseAutomaton
from dragoman.models.special_symbols import EOS


def phrase_choices(
    automaton: PhraseAutomaton,
    states: Sequence[int],
    firsts: Sequence[int],
    columns: Mapping[int, int],
    *,
    total_at: Callable[[int], float],
) -> list[Choice]:
    """Return the choices of the tokens that begin or continue a phrase.

    The place of a token is its column after the first token of a hypothesis, one of `firsts`; `total_at` returns the
    log-probability of the hypothesis with it.
    """
    found: list[Choice] = []
    beam, banks, costs = len(states), automaton.banks, automaton.costs
    for parent, state in enumerate(states):
        for token, after in automaton.continuations(state).items():
            place = firsts[parent] + columns[token]
            total = total_at(place)
            if total > -inf:
                found.append((costs[after] - total, token * beam + parent, banks[after], False, place))
    return found


def best_choices(
    automaton: PhraseAutomaton,
    states: Sequence[int],
    firsts: Sequence[int],
    tokens: Sequence[Sequence[int]],
    *,
    totals: Sequence[Sequence[float]],
) -> list[Choice]:
    """Return the choices of the best tokens of each hypothesis, without those of `phrase_choices`.

    `totals` are the log-probabilities of the hypotheses with each token, best first. Choices that `allocate` cannot
    take may be left out.
    """
    found: list[Choice] = []
    others: list[tuple[int, tuple[int, ...], frozenset[int]]] = []
    beam, banks, costs = len(states), automaton.banks, automaton.costs
    for parent, state in enumerate(states):
        own, numbers = tokens[parent], totals[parent]
        if numbers[0] == -inf:
            continue
        special = automaton.alphabet.intersection(own)
        others.append((parent, automaton.others(state), special))
        for token in special.difference(automaton.continuations(state)) if special else ():
            index, after = own.index(token), automaton.advance(state, token)
            if after != FORBIDDEN and numbers[index] > -inf:
                rank, tie = costs[after] - numbers[index], token * beam + parent
                found.append((rank, tie, banks[after], token == EOS, firsts[parent] + index))
    enough = _enough(automaton, others, totals, ends=sum([is_end for _, _, _, is_end, _ in found]))
    for parent, after_others, special in others:
        inside, hyphen, boundary = after_others
        left, last = enough if inside == hyphen == boundary else len(tokens[parent]), inf
        for place, token, total in zip(count(firsts[parent]), tokens[parent], totals[parent], strict=False):
            if total == -inf or (left <= 0 and total < last):
                break
            after = after_others[automaton.starts[token]]
            if after != FORBIDDEN and token not in special:
                found.append((costs[after] - total, token * beam + parent, banks[after], False, place))
                left, last = left - 1, total
    return found


def _enough(
    automaton: PhraseAutomaton,
    others: Sequence[tuple[int, tuple[int, ...], frozenset[int]]],
    totals: Sequence[Sequence[float]],
    *,
    ends: int,
) -> int:
    """Return how many choices of tokens outside of the alphabet suffice for each hypothesis: at most those of a beam.

    `allocate` takes one choice of each bank in turn. Where several banks have many, few of each fill a beam.
    """
    beam = len(totals)
    rich = {
        int(automaton.banks[after[0]])
        for parent, after, special in others
        if after[0] == after[1] == after[2] != FORBIDDEN
        if totals[parent][-1] > -inf and 2 * (len(totals[parent]) - len(special)) > beam + ends
    }
    return beam if len(rich) < 2 else -(-(beam + ends) // len(rich))
