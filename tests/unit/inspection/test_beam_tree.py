"""The tree of a search: from steps told by hand, with every fate, and the way back from what won."""

import math
from types import SimpleNamespace

import numpy as np

from dragoman.inspection.beam_tree import Candidate, TreeObserver

END = 3


def step(names, parents, tokens, totals, going_on, ended):
    """One step of a search with a beam of two, as a search tells it."""
    return SimpleNamespace(
        names=np.array(names),
        candidates=SimpleNamespace(
            parents=np.array(parents), tokens=np.array(tokens), log_probs=np.array(totals, dtype=np.float64)
        ),
        going_on=np.array(going_on),
        ended=np.array(ended, dtype=bool),
    )


def watched():
    """A sentence called 7 beside another one: the second hypothesis ends first, the first one goes on and wins."""
    observer = TreeObserver(7)
    other = [[0, 0, 0, 0], [9, 9, 9, 9], [-9.0] * 4, [0, 1], [False, False]]
    first = [[0, 0, 0, 0], [4, 5, 6, 8], [-0.5, -1.5, -2.5, -3.0], [0, 1], [False, False]]
    observer.stepped(step([5, 7], *map(list, zip(other, first, strict=True))))
    observer.stepped(step([7], [[1, 0, 0, 1]], [[END, 6, 5, 4]], [[-1.6, -1.75, -2.0, -4.0]], [[1, 2]], [[1, 0]]))
    observer.stepped(step([5], *([row] for row in other)))
    observer.stepped(step([7], [[0, 1, 0, 1]], [[END, END, 4, 4]], [[-1.8, -2.5, -5.0, -6.0]], [[2, 3]], [[1, 1]]))
    return observer.tree


def test_every_candidate_has_its_fate():
    tree = watched()
    assert tree.beam == 2
    assert [[one.fate for one in candidates] for candidates in tree.steps] == [
        ["goes on", "goes on", "cut", "cut"],
        ["ended", "goes on", "goes on", "cut"],
        ["ended", "ended", "goes on", "goes on"],
    ]


def test_what_a_token_adds_is_told_apart_from_the_total():
    tree = watched()
    assert tree.steps[1][1] == Candidate(parent=0, token=6, log_prob=-1.25, total=-1.75, fate="goes on")
    for number, candidates in enumerate(tree.steps):
        for place, one in enumerate(candidates):
            steps = [tree.steps[at][where].log_prob for at, where in enumerate(tree.path(number, place))]
            assert math.isclose(sum(steps), one.total)


def test_the_way_back_from_the_winner():
    tree = watched()
    assert tree.tokens(2, 0) == [4, 6, END]
    assert tree.way_to([4, 6], end=END) == [0, 1, 0]
    assert tree.way_to([5], end=END) == [1, 0]
    assert list(tree.finished()) == [(1, 0), (2, 0), (2, 1)]


def test_an_output_that_was_cut_off_is_found_too():
    tree = watched()
    assert tree.way_to([4, 6, 4], end=END) == [0, 1, 2]
    assert tree.way_to([8, 8, 8], end=END) == []
    assert tree.way_to([], end=END) == []
