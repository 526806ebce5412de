"""Sentences that enter a search and leave it at any time, and what a search tells of its steps."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.decoding import SearchSettings, SearchStep, Stepping, beam_search, search_of
from tests.fakes import SYMBOLS, PrefixNetwork, Sources
from tests.properties.test_search import Problem, assert_same, networks, problems, run_beam, searches


def held(rows: list[list[int]]) -> object:
    return Stepping.hold(Sources(tuple(map(tuple, rows))))


@given(st.one_of(networks(), networks(levels=2)), problems(), searches(), st.data())
def test_sentences_that_come_and_go_find_what_they_find_alone(
    network: PrefixNetwork, problem: Problem, wanted: SearchSettings, data: st.DataObject
) -> None:
    rows, limits = problem
    searching = search_of(Stepping(network), settings=wanted, symbols=SYMBOLS)
    waiting, inside, found = list(range(len(rows))), {}, {}
    while waiting or len(searching):
        entering = [waiting.pop() for _ in range(data.draw(st.integers(0 if inside else 1, 2))) if waiting]
        if entering:
            names = searching.add(
                held([rows[row] for row in entering]), limits=np.array([limits[row] for row in entering])
            )
            inside |= dict(zip(names, entering, strict=True))
        if len(inside) > 1 and data.draw(st.sampled_from([False, False, True])):
            name = data.draw(st.sampled_from(sorted(inside)))
            searching.drop([name])
            inside.pop(name)
        found |= {inside.pop(name): hypotheses for name, hypotheses in searching.step().items()}
        assert len(searching) == len(inside)
    for row, hypotheses in found.items():
        assert_same([hypotheses], run_alone(network, (rows[row], limits[row]), wanted))
    assert found


def run_alone(network: PrefixNetwork, sentence: tuple[list[int], int], wanted: SearchSettings) -> list:
    source, limit = sentence
    return run_beam(network, ([source], [limit]), wanted)


class Replay:
    """Hypotheses made anew of nothing but the steps that an observer is told."""

    def __init__(self) -> None:
        self.open: dict[int, list[tuple[tuple[int, ...], float]]] = {}
        self.set_aside = defaultdict(dict)
        self.over: set[int] = set()

    def stepped(self, step: SearchStep) -> None:
        for row, (name, age) in enumerate(zip(step.names.tolist(), step.ages.tolist(), strict=True)):
            assert name not in self.over
            mine = self.open.get(name, [((), 0.0)])
            assert all(len(tokens) == age for tokens, _ in mine)
            tokens, parents = step.candidates.tokens[row], step.candidates.parents[row]
            totals = step.candidates.log_probs[row]
            for place in step.ended[row].nonzero()[0]:
                assert tokens[place] == SYMBOLS.end
                self.set_aside[name][mine[parents[place]][0], True] = float(totals[place])
            for place in step.cut_off[row].nonzero()[0]:
                self.set_aside[name][mine[place][0], False] = mine[place][1]
            possible = [place for place in step.going_on[row] if totals[place] > -np.inf]
            self.open[name] = [
                ((*mine[parents[place]][0], int(tokens[place])), float(totals[place])) for place in possible
            ]
        self.over |= set(step.names[step.over].tolist())


@given(networks(), problems(), searches())
def test_an_observer_is_told_enough_to_draw_the_tree(
    network: PrefixNetwork, problem: Problem, wanted: SearchSettings
) -> None:
    rows, limits = problem
    replay = Replay()
    found = beam_search(
        Stepping(network), held(rows), limits=np.array(limits), settings=wanted, symbols=SYMBOLS, observer=replay
    )
    assert_same(found, run_beam(network, problem, wanted))
    assert replay.over == set(range(len(rows)))
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            assert replay.set_aside[row][one.tokens, one.finished] == pytest.approx(one.log_prob, abs=1e-4)
