"""The tree of a search: from steps told by hand, with every fate, and the way back from what won."""

import math

import numpy as np
import pytest
import torch

from dragoman.decoding import DecodingConfig, Hypothesis
from dragoman.decoding.beam_hypotheses import BeamCandidates
from dragoman.decoding.beam_search import SearchStep
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.interpret.beam_tree import Candidate, TreeObserver, watch_search
from dragoman.models.config import EncoderDecoderConfig
from tests.fake_models import SYMBOLS
from tests.random_models import random_transformer
from tests.tensor_search import device_memory

END = 3


def step(sentence_ids, parents, tokens, totals, continued, finished):
    """One step of a search with a beam of two, as a search tells it."""
    totals = np.array(totals, dtype=np.float32)
    nowhere = np.zeros((len(sentence_ids), 2), dtype=bool)
    return SearchStep(
        sentence_ids=np.array(sentence_ids),
        lengths=np.zeros(len(sentence_ids), dtype=np.int64),
        candidates=BeamCandidates(np.array(tokens), np.array(parents), np.zeros_like(totals), totals),
        continued=np.array(continued),
        finished=np.array(finished, dtype=bool),
        cut_off=nowhere,
        complete=nowhere[:, 0],
    )


def watched():
    """A sentence called 7 beside another one: the second hypothesis ends first, the first one goes on and wins."""
    observer = TreeObserver(7)
    other = [[0, 0, 0, 0], [9, 9, 9, 9], [-9.0] * 4, [0, 1], [False, False]]
    first = [[0, 0, 0, 0], [4, 5, 6, 8], [-0.5, -1.5, -2.5, -3.0], [0, 1], [False, False]]
    observer.on_step(step([5, 7], *map(list, zip(other, first, strict=True))))
    observer.on_step(step([7], [[1, 0, 0, 1]], [[END, 6, 5, 4]], [[-1.6, -1.75, -2.0, -4.0]], [[1, 2]], [[1, 0]]))
    observer.on_step(step([5], *([row] for row in other)))
    observer.on_step(step([7], [[0, 1, 0, 1]], [[END, END, 4, 4]], [[-1.8, -2.5, -5.0, -6.0]], [[2, 3]], [[1, 1]]))
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
            assert math.isclose(sum(steps), one.total, abs_tol=1e-6)


def test_the_way_back_from_the_winner():
    tree = watched()
    assert tree.tokens(2, 0) == [4, 6, END]
    assert tree.way_to([4, 6], end=END) == [0, 1, 0]
    assert tree.way_to([5], end=END) == [1, 0]
    assert list(tree.finished()) == [(1, 0), (2, 0), (2, 1)]


def test_tokens_are_followed_as_far_as_they_were_looked_at():
    tree = watched()
    assert tree.follow([4, 5, 9]) == [0, 2]
    assert tree.follow([8]) == [3]
    assert tree.follow([9]) == tree.follow([]) == []


def test_an_output_that_was_cut_off_is_found_too():
    tree = watched()
    assert tree.way_to([4, 6, 4], end=END) == [0, 1, 2]
    assert tree.way_to([8, 8, 8], end=END) == []
    assert tree.way_to([], end=END) == []


def test_impossible_candidates_are_no_part_of_the_tree():
    observer = TreeObserver()
    observer.on_step(step([0], [[0, 0, 0, 0]], [[4, 9, 9, 9]], [[-1.0, *[-np.inf] * 3]], [[0, 1]], [[0, 0]]))
    assert [one.token for one in observer.tree.steps[0]] == [4]


@pytest.mark.parametrize("method", [{"method": "beam_search"}, {"method": "mbr", "mbr_temperature": 9.0}])
def test_a_real_search_is_watched(method):
    """Every step's candidates are what the network says, and the winner is the best that the search returns."""
    model = random_transformer(
        EncoderDecoderConfig(d_model=12, num_heads=3, d_ff=7), source_vocabulary=13, target_vocabulary=13
    )
    settings = DecodingConfig(beam_size=3, n_best=2, **method)
    memory = device_memory(model.encode(torch.tensor([[5, 6, 7, END]]), torch.tensor([4])))
    seen = watch_search(TorchBackend(model), memory, settings=settings, limit=7, symbols=SYMBOLS)
    assert isinstance(seen.best, Hypothesis)
    assert seen.tree.beam == 3
    expected = [*seen.best.tokens, SYMBOLS.eos] if seen.best.finished else list(seen.best.tokens)
    tokens = [seen.tree.steps[number][place].token for number, place in enumerate(seen.winner)]
    assert tokens == expected
    last = seen.tree.steps[len(seen.winner) - 1][seen.winner[-1]]
    assert math.isclose(last.total, seen.best.log_prob, rel_tol=1e-4)
    assert seen.method == settings.method
    if seen.best.finished and settings.method == "beam_search":
        assert math.isclose(max(seen.scores.values()), seen.best.score, rel_tol=1e-4)
    memory = model.encode(torch.tensor([[5, 6, 7, 3]]), torch.tensor([4]))
    logits, _ = model.step(torch.tensor([[2]]), memory, model.start(memory, beam_size=1))
    best = logits[0, 0].argsort(descending=True).tolist()
    writable = [token for token in best if token not in (SYMBOLS.pad, SYMBOLS.bos)]
    assert [one.token for one in seen.tree.steps[0]] == writable[:6]
    assert all(len([one for one in step if one.fate == "goes on"]) <= 3 for step in seen.tree.steps)
