"""What beam search returns in cases that can be worked out by hand."""

import math

import pytest
import torch

from dragoman.decoding import Average, Raw, SearchSettings
from dragoman.errors import RunError
from tests.fakes import SYMBOLS, PrefixNetwork, Sources
from tests.searching import beam_search, greedy

A, B = 4, 5
END = SYMBOLS.end


class Table:
    """A network that reads its next-symbol probabilities from a table of prefixes; what is left goes to padding."""

    def __init__(self, rows: dict[tuple[int, ...], dict[int, float]]) -> None:
        self.network = PrefixNetwork(words=2)
        for prefix, probabilities in rows.items():
            left = 1.0 - sum(probabilities.values())
            every = {token: probabilities.get(token, 0.0) for token in range(6)} | {SYMBOLS.pad: left}
            logits = [math.log(probability) if probability > 0 else -math.inf for probability in every.values()]
            self.network._seen[((), (SYMBOLS.begin, *prefix))] = logits

    def search(self, *, limit: int = 5, **settings) -> list[tuple[tuple[int, ...], bool]]:
        memory = Sources(((),))
        wanted = SearchSettings(**settings)
        [found] = beam_search(self.network, memory, limits=torch.tensor([limit]), settings=wanted, symbols=SYMBOLS)
        return [(one.tokens, one.finished) for one in found]


def test_a_wider_beam_finds_what_greedy_search_misses():
    network = Table({(): {A: 0.6, B: 0.4}, (A,): {END: 0.3, A: 0.2, B: 0.2}, (B,): {END: 0.9}}).network
    found = {}
    for beam in (1, 2):
        wanted = SearchSettings(beam=beam, normalisation=Raw())
        [[best]] = beam_search(network, Sources(((),)), limits=torch.tensor([1]), settings=wanted, symbols=SYMBOLS)
        found[beam] = (best.tokens, best.log_prob)
    assert found[1] == ((A,), pytest.approx(math.log(0.6 * 0.3)))
    assert found[2] == ((B,), pytest.approx(math.log(0.4 * 0.9)))


def test_an_end_outside_the_best_continuations_does_not_finish():
    rows = {(): {A: 0.5, B: 0.4, END: 0.1}, (A,): {END: 0.9}, (B,): {END: 0.9}}
    assert Table(rows).search(beam=2, best=2) == [((A,), True), ((B,), True)]


def test_what_is_open_at_the_limit_is_cut_off_and_stands_behind_what_finished():
    rows = {(): {A: 0.9, END: 0.1}, (A,): {A: 0.9, B: 0.1}}
    assert Table(rows).search(limit=1, beam=2, best=2, normalisation=Average()) == [((), True), ((A,), False)]


def test_a_network_that_allows_nothing_more_is_cut_off_where_it_stands():
    rows = {(): {A: 1.0}, (A,): {SYMBOLS.begin: 0.5}}
    assert Table(rows).search(beam=2) == [((A,), False)]


def test_a_minimum_length_keeps_the_end_away():
    rows = {(): {END: 0.9, A: 0.1}, (A,): {END: 0.9, A: 0.1}, (A, A): {END: 1.0}}
    assert Table(rows).search(beam=1, minimum_length=2) == [((A, A), True)]


def test_logits_that_are_no_numbers_are_named():
    network = PrefixNetwork(end_bias=math.nan)
    wanted, limits, memory = SearchSettings(beam=2), torch.tensor([5]), Sources(((4,),))
    for road in (beam_search, greedy):
        with pytest.raises(RunError, match="not finite numbers"):
            road(network, memory, limits=limits, settings=wanted, symbols=SYMBOLS)
