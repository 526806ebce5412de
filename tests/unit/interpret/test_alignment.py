"""Alignments: extraction by hand, choosing a look, and a stored network whose language has one word for each word."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.alignment import GoldAlignment, alignment_scores
from dragoman.interpret.alignment import (
    Judged,
    Look,
    agreement_with,
    best_look,
    both_ways,
    by_share,
    by_source,
    by_target,
    grown,
    leave_one_out,
    looked_at,
    looks,
)
from dragoman.interpret.forward_pass import Pass, watched
from dragoman.interpret.word_merging import Words, words_of_text
from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.runs.load import load_torch_model
from tests.random_recurrent_models import NO_DROPOUT, random_recurrent

RUN = Path(__file__).parents[2] / "golden" / "run-1"
links = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


def test_links_by_hand():
    weights = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])
    assert by_target(weights) == {(0, 0), (2, 1), (2, 2)}
    assert by_source(weights) == {(0, 0), (1, 2), (2, 1)}
    assert by_share(weights, least=0.3) == {(0, 0), (2, 1), (0, 2), (1, 2), (2, 2)}
    assert both_ways(weights) == {(0, 0), (2, 1), (1, 2), (2, 2)}


def test_words_without_weight_are_linked_to_nothing():
    weights = torch.tensor([[0.0, 0.0], [0.0, 0.4]])
    assert by_target(weights) == by_source(weights) == both_ways(weights) == {(1, 1)}
    assert by_target(torch.zeros(0, 3)) == by_source(torch.zeros(3, 0)) == frozenset()


def test_growing_by_hand():
    """From (1, 1), (1, 2) is a neighbour with a new target word; (3, 3) has no way there, and (2, 2) no new word."""
    one, other = frozenset({(1, 1), (1, 2), (3, 3)}), frozenset({(1, 1), (2, 1), (2, 2)})
    assert grown(one, other) == {(1, 1), (1, 2), (2, 1)}


@given(links, links)
def test_what_is_grown_lies_between_intersection_and_union(one, other):
    found = grown(one, other)
    assert one & other <= found <= one | other
    assert grown(one, one) == one
    assert grown(other, one) == found


def passed(cross):
    """A pass with this attention to the source alone, of steps and keys with their end symbols."""
    steps, keys = cross.shape[2:]
    return Pass(
        source=(5,) * (keys - 1) + (3,),
        target=(5,) * (steps - 1) + (3,),
        weights={"cross": cross},
        allowed={"cross": cross > 0},
        mixtures=frozenset(),
        log_probs=torch.zeros(steps, 7),
    )


def test_a_shifted_look_reads_the_step_that_knows_the_word():
    one = passed(torch.rand(1, 2, 4, 3))
    source, target = Words(("a", "b"), ((0,), (1,))), Words(("x", "y", "z"), ((0,), (1,), (2,)))
    plain = looked_at(one, Look(0, 1, shifted=False), source=source, target=target)
    shifted = looked_at(one, Look(0, 1, shifted=True), source=source, target=target)
    assert torch.equal(plain, one.weights["cross"][0, 1, :3, :2])
    assert torch.equal(shifted, one.weights["cross"][0, 1, 1:, :2])
    assert len(list(looks(one))) == 2 * (1 + 2)


def test_the_head_that_agrees_with_what_is_wanted_is_chosen():
    """Of two heads one looks from word to word, the other always at the first; shifted, the first is off by one."""
    diagonal, stuck = torch.eye(4, 4), torch.eye(4)[:1].expand(4, -1)
    cross = 0.9 * torch.stack([stuck, diagonal])[None] + 0.025
    words = Words(("a", "b", "c"), ((0,), (1,), (2,)))
    pairs = [(passed(cross), words, words)]
    wanted = frozenset((place, place) for place in range(3))
    judged = best_look(pairs, agreement_with([wanted]))
    assert judged[0] == Judged(Look(0, 1, shifted=False), 1.0)
    off_by_one = frozenset((place + 1, place) for place in range(2))
    assert best_look(pairs, agreement_with([off_by_one]))[0].look == Look(0, 1, shifted=True)


@pytest.fixture(scope="module")
def translator():
    return load_torch_model(RUN, device="cpu")


@pytest.fixture(scope="module")
def pair(translator):
    """A sentence that the stored network has learnt by heart, each word standing for one."""
    source = words_of_text(translator.tokenizer.source, "the small cat sleeps in the house")
    target = words_of_text(translator.tokenizer.target, "die kleine Katze schläft in dem Haus")
    return source, target


GOLD = [GoldAlignment(frozenset((place, place) for place in range(7)), frozenset((p, p) for p in range(7)))]


def test_leaving_words_out_finds_what_stands_for_what(translator, pair):
    (source, source_words), (target, target_words) = pair
    worth = leave_one_out(
        translator.model,
        source,
        target,
        source_words=source_words,
        target_words=target_words,
        symbols=SpecialSymbols(),
        rows=3,
    )
    assert worth.shape == (7, 7)
    assert (worth >= 0).all()
    assert alignment_scores([by_target(worth)], GOLD).precision > 0.6


def test_rows_at_a_time_change_nothing(translator, pair):
    (source, source_words), (target, target_words) = pair
    few, many = (
        leave_one_out(
            translator.model,
            source,
            target,
            source_words=source_words,
            target_words=target_words,
            symbols=SpecialSymbols(),
            rows=rows,
        )
        for rows in (2, 64)
    )
    torch.testing.assert_close(few, many, atol=1e-4, rtol=1e-4)


def test_attention_of_the_stored_network_aligns_better_than_chance(translator, pair):
    (source, source_words), (target, target_words) = pair
    (one,) = watched(translator.model, [source], [target], symbols=SpecialSymbols())
    judged = best_look([(one, source_words, target_words)], agreement_with([GOLD[0].sure]))
    weights = looked_at(one, judged[0].look, source=source_words, target=target_words)
    assert alignment_scores([both_ways(weights)], GOLD).error_rate < 0.5


def test_a_network_without_attention_can_only_be_asked_what_it_cannot_do_without():
    config = RecurrentConfig(d_model=6, attention=NoAttentionConfig(), dropout=NO_DROPOUT)
    model = random_recurrent(config, source_vocabulary=11, target_vocabulary=11)
    (one,) = watched(model, [[5, 6, 7]], [[8, 9]], symbols=SpecialSymbols())
    source, target = Words(("a", "b"), ((0, 1), (2,))), Words(("x", "y"), ((0,), (1,)))
    assert one.weights == {}
    assert list(looks(one)) == []
    with pytest.raises(DataError, match="leave_one_out"):
        looked_at(one, Look(0, None, shifted=False), source=source, target=target)
    with pytest.raises(DataError, match="leave_one_out"):
        best_look([(one, source, target)], agreement_with([frozenset()]))
    worth = leave_one_out(model, [5, 6, 7], [8, 9], source_words=source, target_words=target, symbols=SpecialSymbols())
    assert worth.shape == (2, 2)
