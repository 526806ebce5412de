"""Beam trees: steps by hand with every outcome, paths, and a recorded search."""

import math
from typing import get_args

import numpy as np
import pytest
import torch

from dragoman.decoding import DecodingConfig, Hypothesis
from dragoman.decoding.beam_hypotheses import BeamCandidates
from dragoman.decoding.beam_search import SearchStep
from dragoman.decoding.config import DecodingMethod
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.interpret.beam_tree import Candidate, TreeRecorder, record_search
from dragoman.interpret.report.serialization import METHOD_NOTES
from dragoman.models.config import EncoderDecoderConfig
from tests.fake_models import SYMBOLS
from tests.random_models import random_transformer
from tests.tensor_search import device_memory

END = 3


def step(sentence_ids, parents, tokens, totals, continued, finished):
    """Return one step of a search with a beam of two."""
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


def recorded_tree():
    """Record sentence 7 of two: its second hypothesis finishes first, the first one is continued and becomes the
    best."""
    recorder = TreeRecorder(7)
    other = [[0, 0, 0, 0], [9, 9, 9, 9], [-9.0] * 4, [0, 1], [False, False]]
    first = [[0, 0, 0, 0], [4, 5, 6, 8], [-0.5, -1.5, -2.5, -3.0], [0, 1], [False, False]]
    recorder.on_step(step([5, 7], *map(list, zip(other, first, strict=True))))
    recorder.on_step(step([7], [[1, 0, 0, 1]], [[END, 6, 5, 4]], [[-1.6, -1.75, -2.0, -4.0]], [[1, 2]], [[1, 0]]))
    recorder.on_step(step([5], *([row] for row in other)))
    recorder.on_step(step([7], [[0, 1, 0, 1]], [[END, END, 4, 4]], [[-1.8, -2.5, -5.0, -6.0]], [[2, 3]], [[1, 1]]))
    return recorder.tree


def test_every_candidate_has_an_outcome():
    tree = recorded_tree()
    assert tree.beam_size == 2
    assert [[one.outcome for one in candidates] for candidates in tree.steps] == [
        ["continued", "continued", "pruned", "pruned"],
        ["finished", "continued", "continued", "pruned"],
        ["finished", "finished", "continued", "continued"],
    ]


def test_totals_are_sums_of_log_probs():
    tree = recorded_tree()
    assert tree.steps[1][1] == Candidate(parent=0, token=6, log_prob=-1.25, total=-1.75, outcome="continued")
    for number, candidates in enumerate(tree.steps):
        for one in candidates:
            before = 0.0 if one.parent is None else tree.steps[number - 1][one.parent].total
            assert math.isclose(before + one.log_prob, one.total, abs_tol=1e-6)


def test_path_of_the_best_output():
    tree = recorded_tree()
    assert tree.output_path([4, 6]) == [0, 1, 0]
    assert tree.output_path([5]) == [1, 0]
    assert list(tree.finished()) == [(1, 0), (2, 0), (2, 1)]


def test_follow_stops_where_the_tree_ends():
    tree = recorded_tree()
    assert tree.follow([4, 5, 9]) == [0, 2]
    assert tree.follow([8]) == [3]
    assert tree.follow([9]) == tree.follow([]) == []


def test_path_of_an_output_cut_off_at_the_limit():
    tree = recorded_tree()
    assert tree.output_path([4, 6, 4]) == [0, 1, 2]
    assert tree.output_path([8, 8, 8]) == []
    assert tree.output_path([]) == []


def test_impossible_candidates_are_not_recorded():
    recorder = TreeRecorder()
    recorder.on_step(step([0], [[0, 0, 0, 0]], [[4, 9, 9, 9]], [[-1.0, *[-np.inf] * 3]], [[0, 1]], [[0, 0]]))
    assert [one.token for one in recorder.tree.steps[0]] == [4]


@pytest.mark.parametrize("method", [{"method": "beam_search"}, {"method": "mbr", "mbr_temperature": 9.0}])
def test_record_search(method):
    """Candidates come from the model, and the best path is the best hypothesis of the search."""
    model = random_transformer(
        EncoderDecoderConfig(d_model=12, num_heads=3, d_ff=7), source_vocabulary=13, target_vocabulary=13
    )
    settings = DecodingConfig(beam_size=3, n_best=2, **method)
    memory = device_memory(model.encode(torch.tensor([[5, 6, 7, END]]), torch.tensor([4])))
    found = record_search(TorchBackend(model), memory, config=settings, limit=7)
    assert isinstance(found.best, Hypothesis)
    assert found.tree.beam_size == 3
    expected = [*found.best.tokens, SYMBOLS.eos] if found.best.finished else list(found.best.tokens)
    tokens = [found.tree.steps[number][place].token for number, place in enumerate(found.best_path)]
    assert tokens == expected
    last = found.tree.steps[len(found.best_path) - 1][found.best_path[-1]]
    assert math.isclose(last.total, found.best.log_prob, rel_tol=1e-4)
    assert found.method == settings.method
    if found.best.finished and settings.method == "beam_search":
        assert math.isclose(max(found.scores.values()), found.best.score, rel_tol=1e-4)
    memory = model.encode(torch.tensor([[5, 6, 7, 3]]), torch.tensor([4]))
    logits, _ = model.step(torch.tensor([[2]]), memory, model.start(memory, beam_size=1))
    best = logits[0, 0].argsort(descending=True).tolist()
    writable = [token for token in best if token not in (SYMBOLS.pad, SYMBOLS.bos)]
    assert [one.token for one in found.tree.steps[0]] == writable[:6]
    assert all(len([one for one in step if one.outcome == "continued"]) <= 3 for step in found.tree.steps)


def test_report_describes_the_choice_of_every_decoding_method():
    assert set(METHOD_NOTES) == set(get_args(DecodingMethod))
    assert "best of all finished hypotheses" in METHOD_NOTES["beam_search"]
    assert "minimum Bayes risk" in METHOD_NOTES["mbr"]
