"""Minimum Bayes risk decoding chooses the hypothesis with the highest expected BLEU by sacreBLEU and by definition."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.decoding import DecodingConfig, Hypothesis, LengthPenalty
from dragoman.decoding.length_penalty import hypothesis_score
from dragoman.decoding.mbr import pairwise_bleu, rank_by_utility
from tests.fake_models import PrefixModel, Sources
from tests.property_settings import examples
from tests.tensor_search import beam_search, penalty_options

outputs = st.lists(st.lists(st.integers(4, 8), max_size=9), min_size=1, max_size=6)
penalties = st.sampled_from(
    [LengthPenalty("none", 0.0), LengthPenalty(), LengthPenalty("average", 1.4), LengthPenalty("gnmt", 0.6)]
)
temperatures = st.sampled_from([0.3, 1.0, 4.0])


def bleu(output: Sequence[int], reference: Sequence[int]) -> float:
    """Return BLEU by sacreBLEU; an empty output scores 0."""
    if not output:
        return float(not reference)
    words = [" ".join(map(str, tokens)) for tokens in (output, reference)]
    how = {"smooth_method": "add-k", "smooth_value": 1, "tokenize": "none", "use_effective_order": False}
    return sacrebleu.sentence_bleu(words[0], [words[1]], **how).score / 100


def expected_bleu(one: Hypothesis, among: Sequence[Hypothesis], penalty: LengthPenalty, temperature: float) -> float:
    """Return the expectation by definition: every other hypothesis is a reference, weighted by its probability."""
    length = among[0].length
    divisors = {"average": length**penalty.alpha, "gnmt": ((5 + length) / 6) ** penalty.alpha, "none": 1}
    divisor = divisors[penalty.kind]
    weights = [math.exp(other.score * divisor / temperature) for other in among]
    return sum(w * bleu(one.tokens, other.tokens) for w, other in zip(weights, among, strict=True)) / sum(weights)


@examples(200)
@given(outputs)
def test_utility_equals_sacrebleu(outputs: list[list[int]]) -> None:
    expected = [[bleu(output, reference) for reference in outputs] for output in outputs]
    assert pairwise_bleu(outputs) == pytest.approx(np.array(expected), abs=1e-9)


drawn = st.tuples(st.lists(st.integers(4, 8), max_size=9), st.floats(-8, -0.1), st.booleans())


def build_hypothesis(tokens: list[int], log_prob: float, finished: bool, penalty: LengthPenalty) -> Hypothesis:
    symbols = len(tokens) + 1
    score = hypothesis_score(log_prob, symbols, penalty)
    return Hypothesis(tuple(tokens), log_prob, score, (log_prob / symbols,) * symbols, finished=finished)


@examples(200)
@given(st.lists(drawn, min_size=1, max_size=6), penalties, temperatures)
def test_the_choice_has_the_highest_expected_bleu(
    parts: list[tuple[list[int], float, bool]], penalty: LengthPenalty, temperature: float
) -> None:
    among = [build_hypothesis(*part, penalty) for part in parts]
    among.sort(key=lambda one: (not one.finished, -one.score))
    wanted = DecodingConfig(
        beam_size=6, n_best=len(among), method="mbr", mbr_temperature=temperature, **penalty_options(penalty)
    )
    found = rank_by_utility(among, wanted)
    assert sorted(map(id, found)) == sorted(map(id, among))  # each once, as it was
    assert [one.finished for one in found] == sorted((one.finished for one in among), reverse=True)
    gains = [expected_bleu(one, among, penalty, temperature) for one in found]
    for (one, gain), (other, next_gain) in zip(
        zip(found, gains, strict=True), zip(found[1:], gains[1:], strict=True), strict=False
    ):
        assert gain >= next_gain - 1e-5 or one.finished > other.finished
    assert rank_by_utility(among, wanted.model_copy(update={"n_best": 1})) == found[:1]


@examples(60)
@given(st.integers(0, 2**32), st.lists(st.integers(4, 10), max_size=5), st.integers(2, 7), temperatures, penalties)
def test_mbr_chooses_from_the_whole_beam(
    seed: int, source: list[int], beam: int, temperature: float, penalty: LengthPenalty
) -> None:
    """A search for one output may stop early only if this changes no choice."""
    network, memory = PrefixModel(words=3, seed=seed), Sources((tuple(source),))
    asked = {"limits": torch.tensor([6])}
    all_of_it = DecodingConfig(beam_size=beam, n_best=beam, **penalty_options(penalty))
    [among] = beam_search(network, memory, config=all_of_it, **asked)
    choosing = DecodingConfig(beam_size=beam, **penalty_options(penalty), method="mbr", mbr_temperature=temperature)
    [[found]] = beam_search(network, memory, config=choosing, **asked)
    finished = [one for one in among if one.finished] or among
    gains = [expected_bleu(one, among, penalty, temperature) for one in finished]
    mine = expected_bleu(found, among, penalty, temperature)
    assert found in finished
    assert mine == pytest.approx(max(gains), abs=1e-5)
