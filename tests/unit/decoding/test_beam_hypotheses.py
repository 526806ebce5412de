"""Hypotheses of a beam search: order of candidates, ties, suppressed tokens and exact top-k."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dragoman.decoding.beam_hypotheses import (
    BeamCandidates,
    best_candidates,
    initial_candidates,
    unfinished_indices,
)
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.search_base import suppressed_tokens
from dragoman.decoding.torch_logits_operations import exact_top_k, top_k_tokens
from dragoman.errors import RunError
from tests.fake_models import SYMBOLS

SO_FAR = np.array([[0.0, -1.0]], dtype=np.float32)


def continuations(logits: torch.Tensor, so_far: np.ndarray, *, width: int, suppressed: tuple = ()) -> BeamCandidates:
    return best_candidates(*top_k_tokens(logits, k=width, suppress_tokens=suppressed), so_far, width=width)


def logits_of(probabilities: list[list[float]]) -> torch.Tensor:
    return torch.tensor([probabilities]).log()


def test_best_pairs_come_first():
    logits = logits_of([[0.1, 0.2, 0.3, 0.4], [0.01, 0.01, 0.01, 0.97]])
    best = continuations(logits, SO_FAR, width=5)
    pairs = list(zip(best.parents[0].tolist(), best.tokens[0].tolist(), strict=True))
    assert pairs == [(0, 3), (1, 3), (0, 2), (0, 1), (0, 0)]
    assert best.log_probs[0, 1].item() == pytest.approx(-1.0 + math.log(0.97))
    assert best.token_log_probs[0, 1].item() == pytest.approx(math.log(0.97), abs=1e-6)


def test_ties_break_by_token_then_parent():
    best = continuations(torch.zeros(1, 2, 5), np.zeros((1, 2), dtype=np.float32), width=6)
    pairs = list(zip(best.tokens[0].tolist(), best.parents[0].tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


@given(
    totals=arrays(np.float32, (7, 2, 3), elements=st.sampled_from([-math.inf, -3.0, -2.5, -1.0, 0.0])),
    tokens=arrays(np.int32, (7, 2, 3), elements=st.integers(0, 3)),
    width=st.integers(1, 6),
)
def test_order_equals_a_sort_by_score_token_and_parent(totals, tokens, width):
    best = best_candidates(totals, tokens, np.zeros((7, 2), dtype=np.float32), width=width)
    for row in range(7):
        candidates = [
            (-totals[row, parent, place], tokens[row, parent, place], parent) for parent in (0, 1) for place in range(3)
        ]
        found = zip(-best.log_probs[row], best.tokens[row], best.parents[row], strict=True)
        assert list(found) == sorted(candidates)[:width]


def test_suppressed_tokens_keep_their_probability():
    logits = logits_of([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    best = continuations(logits, np.array([[0.0, -math.inf]], dtype=np.float32), width=2, suppressed=(0,))
    assert best.tokens.tolist() == [[1, 2]]
    assert best.token_log_probs[0].tolist() == pytest.approx([math.log(0.3), math.log(0.2)])


@pytest.mark.parametrize("damage", [math.nan, math.inf])
def test_non_finite_logits_raise_an_error(damage):
    logits = torch.zeros(3, 2, 5)
    logits[1, 1, 2] = damage
    for width in (1, 4):
        with pytest.raises(RunError, match="not finite numbers"):
            top_k_tokens(logits, k=width, suppress_tokens=[2])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 100])
def test_exact_top_k_equals_a_stable_sort(count):
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 4, (5, 3, 97), generator=generator).float()
    values[0, 0] = -math.inf
    values[0, 0, 11] = 0.0
    top, places = exact_top_k(values, count)
    order = values.argsort(dim=-1, descending=True, stable=True)[..., :count]
    torch.testing.assert_close(top.sort(descending=True).values, values.gather(2, order))
    possible = top > -math.inf
    assert [
        set(row[kept].tolist()) for row, kept in zip(places.flatten(0, 1), possible.flatten(0, 1), strict=True)
    ] == [
        set(row[values_ > -math.inf].tolist())
        for row, values_ in zip(order.flatten(0, 1), values.gather(2, order).flatten(0, 1), strict=True)
    ]


@pytest.mark.parametrize(
    ("is_short", "options", "expected"),
    [
        (False, {}, {0, 2}),
        (True, {}, {0, 2, 3}),
        (True, {"allow_unk": False}, {0, 1, 2, 3}),
        (False, {"suppress_tokens": (7, 5)}, {0, 2, 5, 7}),
    ],
)
def test_suppressed_tokens(is_short, options, expected):
    assert set(suppressed_tokens(DecodingConfig(**options), is_short=is_short)) == expected


def test_finished_candidates_do_not_continue():
    first = initial_candidates(np.array([SYMBOLS.bos]), 2)
    logits = logits_of([[0.0, 0.1, 0.0, 0.6, 0.3], [0.0, 0.1, 0.0, 0.6, 0.3]])
    best = continuations(logits, first.log_probs, width=4)
    assert best.tokens[0, :3].tolist() == [3, 4, 1]
    assert best.take(unfinished_indices(best, beam_size=2)).tokens.tolist() == [[4, 1]]
