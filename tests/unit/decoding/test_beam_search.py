"""Beam search in cases that can be computed by hand."""

import math

import pytest
import torch

from dragoman.decoding import DecodingConfig
from dragoman.errors import RunError
from tests.fake_models import SYMBOLS, PrefixModel, Sources
from tests.tensor_search import beam_search, greedy

A, B = 4, 5
END = SYMBOLS.eos


class Table:
    """Model with next-token probabilities from a table of prefixes; the rest of the mass is padding."""

    def __init__(self, rows: dict[tuple[int, ...], dict[int, float]]) -> None:
        self.network = PrefixModel(words=2)
        for prefix, probabilities in rows.items():
            left = 1.0 - sum(probabilities.values())
            every = {token: probabilities.get(token, 0.0) for token in range(6)} | {SYMBOLS.pad: left}
            logits = [math.log(probability) if probability > 0 else -math.inf for probability in every.values()]
            self.network._seen[((), (SYMBOLS.bos, *prefix))] = logits

    def search(self, *, limit: int = 5, **settings) -> list[tuple[tuple[int, ...], bool]]:
        memory = Sources(((),))
        wanted = DecodingConfig(**settings)
        [found] = beam_search(self.network, memory, limits=torch.tensor([limit]), config=wanted)
        return [(one.tokens, one.finished) for one in found]


def test_wider_beam_finds_what_greedy_misses():
    network = Table({(): {A: 0.6, B: 0.4}, (A,): {END: 0.3, A: 0.2, B: 0.2}, (B,): {END: 0.9}}).network
    found = {}
    for beam in (1, 2):
        wanted = DecodingConfig(beam_size=beam, length_penalty_kind="none")
        [[best]] = beam_search(network, Sources(((),)), limits=torch.tensor([1]), config=wanted)
        found[beam] = (best.tokens, best.log_prob)
    assert found[1] == ((A,), pytest.approx(math.log(0.6 * 0.3)))
    assert found[2] == ((B,), pytest.approx(math.log(0.4 * 0.9)))


def test_end_outside_the_beam_does_not_finish():
    rows = {(): {A: 0.5, B: 0.4, END: 0.1}, (A,): {END: 0.9}, (B,): {END: 0.9}}
    assert Table(rows).search(beam_size=2, n_best=2) == [((A,), True), ((B,), True)]


def test_cut_off_hypotheses_follow_finished_ones():
    rows = {(): {A: 0.9, END: 0.1}, (A,): {A: 0.9, B: 0.1}}
    assert Table(rows).search(limit=1, beam_size=2, n_best=2) == [((), True), ((A,), False)]


def test_cut_off_hypotheses_are_ranked_with_finished_ones():
    rows = {(): {A: 0.9, END: 0.1}, (A,): {A: 0.9, B: 0.1}}
    for cut_off in ("ranked", "ended"):
        options = {"beam_size": 2, "n_best": 2, "cut_off": cut_off}
        assert Table(rows).search(limit=1, **options) == [((A,), False), ((), True)]


def test_end_that_costs_nothing_counts_as_a_token():
    rows = {(): {A: 0.9, END: 0.1}}
    [[best]] = beam_search(
        Table(rows).network,
        Sources(((),)),
        limits=torch.tensor([1]),
        config=DecodingConfig(beam_size=2, cut_off="ended"),
    )
    assert best.score == pytest.approx(math.log(0.9) / 2)


def test_worse_finished_hypotheses_do_not_end_the_search():
    rows = {
        (): {A: 0.99, END: 0.01},
        (A,): {B: 0.99, END: 0.01},
        (A, B): {B: 0.9, A: 0.1},
        (A, B, B): {END: 0.99, A: 0.01},
        (A, B, A): {END: 1.0},
    }
    assert Table(rows).search(beam_size=2) == [((A, B, B), True)]
    assert Table(rows).search(beam_size=2, early_stopping=True) == [((A, B, B), True)]  # the output of greedy search
    assert Table(rows).search(beam_size=2, early_stopping=True, keep_greedy=False) == [((A,), True)]


def test_output_of_greedy_search_stays_in_the_beam():
    rows = {
        (): {A: 0.4, B: 0.35, END: 0.001},
        (A,): {A: 0.3, B: 0.29, END: 0.01},
        (B,): {A: 0.5, B: 0.5},
        (B, A): {END: 0.1},
        (B, B): {END: 0.1},
        (A, A): {END: 1.0},
    }
    assert Table(rows).search(beam_size=2) == [((A, A), True)]
    assert Table(rows).search(beam_size=2, keep_greedy=False) == [((B, A), True)]


def test_search_without_early_stopping_finds_a_longer_output():
    rows = {(): {END: 0.6, A: 0.4}, (A,): {END: 0.4, A: 0.6}, (A, A): {A: 1.0}, (A, A, A): {END: 1.0}}
    options = {"beam_size": 2, "length_penalty": 1.0}
    assert Table(rows).search(**options, early_stopping=True, keep_greedy=False) == [((), True)]
    assert Table(rows).search(**options, early_stopping=False) == [((A, A, A), True)]


def test_hypothesis_without_continuation_is_cut_off():
    rows = {(): {A: 1.0}, (A,): {SYMBOLS.bos: 0.5}}
    assert Table(rows).search(beam_size=2) == [((A,), False)]


def test_min_length_suppresses_the_end():
    rows = {(): {END: 0.9, A: 0.1}, (A,): {END: 0.9, A: 0.1}, (A, A): {END: 1.0}}
    assert Table(rows).search(beam_size=1, min_length=2) == [((A, A), True)]


def test_non_finite_logits_raise_an_error():
    network = PrefixModel(end_bias=math.nan)
    wanted, limits, memory = DecodingConfig(beam_size=2), torch.tensor([5]), Sources(((4,),))
    for run in (beam_search, greedy):
        with pytest.raises(RunError, match="not finite numbers"):
            run(network, memory, limits=limits, config=wanted)
