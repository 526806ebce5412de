"""Allocation of the beam of a constrained sentence: the fast choices and their order equal the definition."""

from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dragoman.decoding.constraints import PhraseAutomaton
from dragoman.decoding.constraints.allocate_beam import MISSING_TOKEN_COST, Choice, allocate
from dragoman.decoding.constraints.phrase_automaton import FORBIDDEN, START
from dragoman.decoding.constraints.sentence_choices import best_choices, phrase_choices
from dragoman.models.special_symbols import EOS
from tests.properties.test_constrained_search import FIRST, boundaries, build, phrases, preferred
from tests.property_settings import examples

WORDS, BEAM, BEST = 7, 3, 6
VOCABULARY = FIRST + WORDS
ROWS = st.lists(st.lists(st.integers(-9, 0), min_size=VOCABULARY, max_size=VOCABULARY), min_size=BEAM, max_size=BEAM)


def defined(choices: list[Choice], *, beam: int, has_banks: bool) -> list[Choice]:
    """Allocate by definition."""
    order, before_end = sorted(choices), beam
    if has_banks:
        banks = [int(one[2]) for one in order]
        level = {one: banks[:place].count(banks[place]) for place, one in enumerate(order)}
        fullest = [one for one in order if int(one[2]) == max(banks)]
        unfinished = [one for one in fullest if not one[3]]
        chosen = fullest[:1] + sorted(unfinished, key=lambda one: (-one[2], one))[:1]
        cost = {one: one[0] + MISSING_TOKEN_COST * (max(banks) - int(one[2])) for one in order} if order else {}
        order.sort(key=lambda one: (chosen.index(one) if one in chosen else 2, level[one], cost[one], one))
        places = [place for place, one in enumerate(order) if not one[3]]
        before_end = places[beam - 1] if len(places) >= beam else len(order)
    finished = [one for one in order[:before_end] if one[3]][:beam]
    return sorted(finished) + sorted([one for one in order if not one[3]][:beam])


@examples(200)
@given(
    phrases(4, 2),
    boundaries(WORDS),
    st.lists(st.lists(st.integers(FIRST, VOCABULARY - 1), max_size=4), min_size=BEAM, max_size=BEAM),
    ROWS,
    st.booleans(),
)
def test_left_out_choices_are_never_allocated(drawn, ends, outputs, numbers, is_required):
    automaton = PhraseAutomaton(build(drawn) if is_required else preferred(drawn, 1.5), ends)
    states = []
    for output in outputs:
        states.append(START)
        for token in output:
            states[-1] = automaton.read(states[-1], token)
    logits = np.array(numbers) / 2.0
    logits[logits == -4.5] = -inf
    logits[:, [one for one in range(FIRST) if one != EOS]] = -inf
    best = np.argsort(-logits, axis=1, kind="stable")[:, :BEST]
    extra = sorted({token for state in states for token in automaton.continuations(state)})
    columns = dict(zip(extra, range(BEST, BEST + len(extra)), strict=True))
    totals = np.concatenate([np.take_along_axis(logits, best, axis=1), logits[:, extra]], axis=1)
    firsts = range(0, totals.size, totals.shape[1])
    fast = best_choices(automaton, states, firsts, best.tolist(), totals=totals[:, :BEST].tolist())
    fast += phrase_choices(automaton, states, firsts, columns, total_at=totals.item)
    every = []
    for parent, state in enumerate(states):
        for token in {*best[parent].tolist(), *automaton.continuations(state)}:
            after = automaton.advance(state, token)
            column = columns[token] if token in automaton.continuations(state) else best[parent].tolist().index(token)
            total = float(totals[parent, column])
            if after != FORBIDDEN and total > -inf:
                place = firsts[parent] + column
                rank, tie = automaton.costs[after] - total, token * BEAM + parent
                every.append((rank, tie, automaton.banks[after], token == EOS, place))
    assert set(fast) <= set(every)
    has_banks = automaton.required != 0
    expected = defined(every, beam=BEAM, has_banks=has_banks)
    assert allocate(sorted(fast), beam=BEAM, has_banks=has_banks) == expected
