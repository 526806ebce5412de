"""Properties of all searches over any model, checked by enumeration on small random models."""

import itertools
import math
from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.decoding import DecodingConfig, Hypothesis, LengthPenalty, forced_decoding
from dragoman.decoding.forced_decoding import score_outputs, score_targets
from tests.fake_models import SYMBOLS, PrefixModel, Sources, rectangle
from tests.plain_beam_search import plain_beam_search
from tests.property_settings import examples
from tests.stepwise_scoring import score_stepwise
from tests.tensor_search import beam_search, greedy, penalty_options, search

PRIMES = [1, 2, 3, 5, 7]
penalties = st.one_of(
    st.just(LengthPenalty("none", 0.0)),
    st.builds(LengthPenalty, st.just("average"), st.sampled_from([0.0, 0.6, 1.0, 1.7, 20.0])),
    st.builds(LengthPenalty, st.just("gnmt"), st.sampled_from([0.0, 0.6, 2.3])),
)
sources = st.lists(st.lists(st.integers(4, 10), max_size=5), min_size=1, max_size=5)


def networks(*, words: int = 3, levels: int | None = None) -> st.SearchStrategy[PrefixModel]:
    return st.builds(
        PrefixModel,
        words=st.just(words),
        seed=st.integers(0, 2**32),
        levels=st.just(levels),
        end_bias=st.sampled_from([-3.0, 0.0, 1.0, 3.0]),
    )


@st.composite
def searches(draw: st.DrawFn) -> DecodingConfig:
    beam = draw(st.sampled_from(PRIMES))
    return DecodingConfig(
        beam_size=beam,
        n_best=draw(st.integers(1, beam)),
        **penalty_options(draw(penalties)),
        min_length=draw(st.integers(0, 3)),
        allow_unk=draw(st.booleans()),
        renormalize=draw(st.booleans()),
        early_stopping=draw(st.booleans()),
        keep_greedy=draw(st.booleans()),
        cut_off=draw(st.sampled_from(["last", "last", "ranked", "ended"])),
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Draw sources and a limit for each."""
    rows = draw(sources)
    return rows, [draw(st.integers(1, 7)) for _ in rows]


Problem = tuple[list[list[int]], list[int]]


def run_beam(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> list[list[Hypothesis]]:
    rows, limits = problem
    memory = Sources(tuple(map(tuple, rows)))
    return beam_search(network, memory, limits=torch.tensor(limits), config=wanted)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in expected]
    for mine, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert mine.finished == other.finished
        assert mine.log_prob == pytest.approx(other.log_prob, abs=1e-4)
        assert mine.score == pytest.approx(other.score, abs=1e-4, rel=1e-5)
        assert mine.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@given(networks(), problems(), searches())
def test_beam_of_one_equals_greedy(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    narrow = wanted.model_copy(update={"beam_size": 1, "n_best": 1, "cut_off": "last"})
    rows, limits = problem
    memory = Sources(tuple(map(tuple, rows)))
    one = greedy(network, memory, limits=torch.tensor(limits), config=narrow)
    assert_same(run_beam(network, problem, narrow), one)


@given(networks(levels=2), problems())
def test_beam_of_one_equals_greedy_with_ties(network: PrefixModel, problem: Problem) -> None:
    narrow = DecodingConfig(beam_size=1)
    rows, limits = problem
    memory = Sources(tuple(map(tuple, rows)))
    one = greedy(network, memory, limits=torch.tensor(limits), config=narrow)
    assert_same(run_beam(network, problem, narrow), one)


def every_output(network: PrefixModel, source: list[int], limit: int, wanted: DecodingConfig) -> Iterator[Hypothesis]:
    """Return all finished outputs that the configuration allows, with scores by definition in double precision."""
    words = [SYMBOLS.unk] * wanted.allow_unk + list(range(4, network.vocabulary))
    for length in range(wanted.min_length, limit + 1):
        for tokens in itertools.product(words, repeat=length):
            symbols = [*tokens, SYMBOLS.eos]
            prefixes = [(SYMBOLS.bos, *tokens[:place]) for place in range(length + 1)]
            log_probs = tuple(
                network.log_probs(source, prefix)[symbol] for prefix, symbol in zip(prefixes, symbols, strict=True)
            )
            log_prob = math.fsum(log_probs)
            yield Hypothesis(tokens, log_prob, by_definition(log_prob, length + 1, wanted), log_probs, finished=True)


def by_definition(log_prob: float, length: int, wanted: DecodingConfig) -> float:
    alpha = wanted.penalty.alpha
    match wanted.penalty.kind:
        case "average":
            return log_prob / length**alpha
        case "gnmt":
            return log_prob / ((5 + length) / 6) ** alpha
        case "none":
            return log_prob


@examples(60)
@given(networks(words=2), st.lists(st.integers(4, 9), max_size=3), penalties, st.integers(0, 3), st.integers(1, 5))
def test_widest_beam_equals_exhaustive_search(
    network: PrefixModel, source: list[int], penalty: LengthPenalty, minimum: int, best: int
) -> None:
    limit = 3
    wanted = DecodingConfig(beam_size=3**4, n_best=best, **penalty_options(penalty), min_length=minimum)
    [found] = run_beam(network, ([source], [limit]), wanted)
    outputs = sorted(every_output(network, source, limit, wanted), key=lambda one: -one.score)
    assert_same([found], [outputs[:best]])


@given(networks(), problems(), searches())
def test_beam_search_equals_the_plain_loop(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    rows, limits = problem
    ids, lengths = rectangle([[*row, SYMBOLS.eos] for row in rows])
    with_end = [[*row, SYMBOLS.eos] for row in rows]
    plain = plain_beam_search(network, ids, lengths, limits=limits, settings=wanted)
    assert_same(run_beam(network, (with_end, limits), wanted), plain)


@given(networks(), problems(), searches())
def test_no_score_is_below_that_of_greedy_search(
    network: PrefixModel, problem: Problem, wanted: DecodingConfig
) -> None:
    wanted = wanted.model_copy(update={"n_best": 1, "keep_greedy": True})
    greedy_outputs = run_beam(network, problem, wanted.model_copy(update={"beam_size": 1}))
    for [best], [other] in zip(run_beam(network, problem, wanted), greedy_outputs, strict=True):
        if wanted.cut_off == "last":  # cut off outputs come last, whatever their scores
            assert best.finished >= other.finished
        if wanted.cut_off != "last" or best.finished == other.finished:
            assert best.score >= other.score - 1e-5 * max(1, abs(other.score))


@given(networks(), problems(), searches())
def test_worse_hypotheses_do_not_end_a_search(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    """Without a length penalty, all that a search up to the length limits finds is found."""
    assume(wanted.beam_size > 1)
    wanted = wanted.model_copy(update={"length_penalty_kind": "none", "length_penalty": None, "early_stopping": False})
    rows, limits = problem
    ids, lengths = rectangle(rows)
    found = run_beam(network, problem, wanted)
    assert_same(found, plain_beam_search(network, ids, lengths, limits=limits, settings=wanted, stops=False))


@given(st.one_of(networks(), networks(levels=2)), problems(), searches())
def test_batch_equals_alone(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    together = run_beam(network, problem, wanted)
    alone = [run_beam(network, ([row], [limit]), wanted)[0] for row, limit in zip(*problem, strict=True)]
    assert_same(together, alone)


@given(networks(), problems(), searches())
def test_outputs_obey_limits_and_are_sorted(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    never = {SYMBOLS.pad, SYMBOLS.bos, SYMBOLS.eos} | (set() if wanted.allow_unk else {SYMBOLS.unk})
    for hypotheses, limit in zip(run_beam(network, problem, wanted), problem[1], strict=True):
        assert 1 <= len(hypotheses) <= wanted.n_best
        assert len({one.tokens for one in hypotheses}) == len(hypotheses)
        order = [(one.finished and wanted.cut_off == "last", one.score) for one in hypotheses]
        assert order == sorted(order, reverse=True)
        for one in hypotheses:
            assert not never & set(one.tokens)
            assert len(one.tokens) <= limit
            assert not one.finished or len(one.tokens) >= wanted.min_length
            assert one.finished or len(one.tokens) == limit
            assert one.log_prob == pytest.approx(math.fsum(one.token_log_probs), abs=1e-4)
            length = one.length + (wanted.cut_off == "ended" and not one.finished)
            assert one.score == pytest.approx(by_definition(one.log_prob, length, wanted), rel=1e-4, abs=1e-6)


@given(networks(), problems(), searches())
def test_returned_score_equals_forced_score(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    wanted = wanted.model_copy(update={"renormalize": False})  # forced decoding knows no minimum
    found = [
        (row, one)
        for row, hypotheses in zip(problem[0], run_beam(network, problem, wanted), strict=True)
        for one in hypotheses
        if one.finished
    ]
    if not found:
        return
    ids, lengths = rectangle([row for row, _ in found])
    forced = score_outputs(network, ids, lengths, outputs=[one.tokens for _, one in found], penalty=wanted.penalty)
    assert_same([forced], [[one for _, one in found]])


@given(networks(), problems(), searches())
def test_smaller_n_best_is_a_prefix_of_larger(network: PrefixModel, problem: Problem, wanted: DecodingConfig) -> None:
    fewer = run_beam(network, problem, wanted)
    more = run_beam(network, problem, wanted.model_copy(update={"n_best": wanted.beam_size}))
    assert_same(fewer, [row[: wanted.n_best] for row in more])


@given(networks(), problems(), st.integers(0, 3))
def test_greedy_and_beam_rank_alike(network: PrefixModel, problem: Problem, minimum: int) -> None:
    """Greedy and beam search count lengths in the same way."""
    memory = Sources(tuple(map(tuple, problem[0])))
    for beam in (1, 2):
        wanted = DecodingConfig(beam_size=beam, min_length=minimum)
        found = search(network, memory, limits=torch.tensor(problem[1]), config=wanted)
        for [one], limit in zip(found, problem[1], strict=True):
            assert one.length == len(one.tokens) + one.finished
            assert min(minimum, limit) <= len(one.tokens) <= limit


@given(networks(words=5), sources, st.data(), st.sampled_from([1, 3, 1024]))
def test_parallel_scores_equal_step_scores(
    network: PrefixModel, rows: list[list[int]], data: st.DataObject, positions: int
) -> None:
    outputs = [data.draw(st.lists(st.integers(4, 8), max_size=7)) for _ in rows]
    ids, lengths = rectangle([[*row, SYMBOLS.eos] for row in rows])
    target, _ = rectangle([[SYMBOLS.bos, *output] for output in outputs])
    expected, _ = rectangle([[*output, SYMBOLS.eos] for output in outputs])
    with patch.object(forced_decoding, "POSITIONS_PER_CHUNK", positions):
        parallel = score_targets(network, ids, lengths, target=target, expected=expected)
    memory = network.encode(ids, lengths)
    stepped = score_stepwise(network, memory, target=target, expected=expected)
    torch.testing.assert_close(parallel, stepped)
    assert (parallel[expected == SYMBOLS.pad] == 0).all()
