"""Properties of sampling from any model: draws follow the distribution, depend on the seed alone, and temperature 0 is
greedy."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.decoding import DecodingConfig, Hypothesis, OutputStart, SamplingConfig
from dragoman.decoding import search as run_any_search
from dragoman.decoding.greedy_search import uniform_number
from dragoman.decoding.sampling import SamplingStep, sample_next
from dragoman.decoding.torch_logits_operations import TorchOperations
from dragoman.inference.backends.sliding_context_backend import SlidingContext, tokens_after_slide
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.models.config import DecoderOnlyConfig, LearnedConfig, RotaryConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from tests.fake_models import SYMBOLS, PrefixModel, Sources, TextModel, rectangle
from tests.random_models import NO_DROPOUT, random_causal
from tests.tensor_search import beam_search, device_memory, greedy, search

prompts = st.lists(st.lists(st.integers(4, 8), min_size=1, max_size=7), min_size=1, max_size=5)
networks = st.builds(
    PrefixModel,
    words=st.just(5),
    seed=st.integers(0, 2**32),
    levels=st.sampled_from([None, 2]),
    end_bias=st.sampled_from([-3.0, 0.0, 1.0]),
)
chances = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.sampled_from([None, 1, 3]),
    top_p=st.sampled_from([None, 0.7]),
    min_p=st.sampled_from([None, 0.1]),
    typical_p=st.sampled_from([None, 0.8]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    no_repeat_ngram_size=st.sampled_from([None, 2]),
    min_length=st.integers(0, 3),
    allow_unk=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)


def sliding_model(model: object, *, context: int) -> SlidingContext:
    return SlidingContext(TorchBackend(model, decoder_only=True), context=context)


def draw_all(
    network: PrefixModel,
    rows: Sequence[Sequence[int]],
    wanted: SamplingConfig,
    *,
    limits: Sequence[int],
    numbers: Sequence[tuple[int, int]] | None = None,
    context: int = 100,
) -> list[Hypothesis]:
    """Return the samples for prompts."""
    model = sliding_model(TextModel(network, max_length=context), context=context)
    keys = numbers or [(row, 0) for row in range(len(rows))]
    starts = [OutputStart(row[-1], tuple(row), key) for row, key in zip(rows, keys, strict=True)]
    found = run_any_search(model, model.encode(rows), limits=np.array(limits), config=wanted, starts=starts)
    return [one for [one] in found]


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.finished for one in found] == [one.finished for one in expected]
    for mine, other in zip(found, expected, strict=True):
        assert mine.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
        assert mine.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize(
    "wanted",
    [
        SamplingConfig(seed=1),
        SamplingConfig(seed=2, temperature=0.6),
        SamplingConfig(seed=3, temperature=1.5, top_k=5),
        SamplingConfig(seed=4, top_p=0.8),
        SamplingConfig(seed=5, min_p=0.2),
        SamplingConfig(seed=6, typical_p=0.7),
    ],
    ids=lambda one: ",".join(one.model_dump(exclude_defaults=True)),
)
def test_frequencies_follow_the_distribution(wanted: SamplingConfig) -> None:
    """Pearson's chi-square test on 20,000 draws; its 99.9 % quantile by Wilson and Hilferty (1931)."""
    count = 20_000
    logits = torch.tensor([[0.3, -1.1, 2.0, 0.0, 1.4, -0.2, 0.9]])
    numbers = [uniform_number(wanted.seed, (row, 0), 0) for row in range(count)]
    step = SamplingStep(
        wanted,
        suppress_tokens=[],
        too_short=np.zeros(count, dtype=bool),
        context=np.zeros((count, 0), dtype=np.int64),
        uniforms=numbers,
    )
    tokens, _ = sample_next(logits.expand(count, -1), step, TorchOperations)
    expected = by_definition(logits[0].tolist(), wanted)
    observed = Counter(tokens.tolist())
    assert set(observed) <= set(expected)
    statistic = sum((observed[token] - count * share) ** 2 / (count * share) for token, share in expected.items())
    freedom = len(expected) - 1
    assert freedom > 0
    assert statistic < freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3


def by_definition(logits: list[float], wanted: SamplingConfig) -> dict[int, float]:
    """Return the probabilities of the allowed tokens, by at most one filter, token by token."""
    powers = [math.exp(logit / wanted.temperature) for logit in logits]
    shares = {token: power / math.fsum(powers) for token, power in enumerate(powers)}
    if wanted.top_k is not None:
        shares = dict(sorted(shares.items(), key=lambda one: -one[1])[: wanted.top_k])
    if wanted.top_p is not None:
        shares = until(wanted.top_p, sorted(shares.items(), key=lambda one: -one[1]))
    if wanted.min_p is not None:
        greatest = max(shares.values())
        shares = {token: share for token, share in shares.items() if share >= wanted.min_p * greatest}
    if wanted.typical_p is not None:
        entropy = -math.fsum(share * math.log(share) for share in shares.values())
        shares = until(wanted.typical_p, sorted(shares.items(), key=lambda one: abs(-math.log(one[1]) - entropy)))
    whole = math.fsum(shares.values())
    return {token: share / whole for token, share in shares.items()}


def until(mass: float, ordered: list[tuple[int, float]]) -> dict[int, float]:
    taken: dict[int, float] = {}
    for token, share in ordered:
        if math.fsum(taken.values()) < mass:
            taken[token] = share
    return taken


def test_consecutive_draws_are_independent() -> None:
    """Pairs of consecutive draws are as independent as parallel draws: pairs in 4 x 4 cells."""
    numbers = [uniform_number(7, (0, 0), step) for step in range(20_001)]
    cells = Counter((int(4 * one), int(4 * two)) for one, two in itertools.pairwise(numbers))
    statistic = sum((cells[row, column] - 1250) ** 2 / 1250 for row in range(4) for column in range(4))
    assert statistic < 37.7  # 99.9 % of chi-square with 15 degrees of freedom


@given(networks, prompts, chances, st.data())
def test_batch_equals_alone(
    network: PrefixModel, rows: list[list[int]], wanted: SamplingConfig, data: st.DataObject
) -> None:
    """Also for texts that exceed the context at different steps."""
    limits = [data.draw(st.integers(1, 9)) for _ in rows]
    numbers = [data.draw(st.tuples(st.integers(0, 2**32), st.integers(0, 97))) for _ in rows]
    context = data.draw(st.sampled_from([1, 2, 3, 5, 7, 100]))
    together = draw_all(network, rows, wanted, limits=limits, numbers=numbers, context=context)
    alone = [
        draw_all(network, [row], wanted, limits=[limit], numbers=[number], context=context)[0]
        for row, limit, number in zip(rows, limits, numbers, strict=True)
    ]
    assert_same(together, alone)


@given(networks, prompts, chances)
def test_a_seed_reproduces_its_samples(network: PrefixModel, rows: list[list[int]], wanted: SamplingConfig) -> None:
    limits = [7] * len(rows)
    assert draw_all(network, rows, wanted, limits=limits) == draw_all(network, rows, wanted, limits=limits)


def test_other_seeds_requests_and_samples_differ() -> None:
    network, rows = PrefixModel(words=31, end_bias=-30.0), [[5]]
    changed = [(0, (0, 0)), (1, (0, 0)), (0, (1, 0)), (0, (0, 1))]
    found = [
        draw_all(network, rows, SamplingConfig(seed=seed), limits=[11], numbers=[number])[0].tokens
        for seed, number in changed
    ]
    assert len(set(found)) == len(changed)


@given(networks, prompts, st.integers(0, 3), st.booleans(), st.integers(1, 7))
def test_temperature_0_equals_greedy_and_beam_of_one(
    network: PrefixModel, rows: list[list[int]], minimum: int, unknown: bool, limit: int
) -> None:
    model = TextModel(network)
    common = {"min_length": minimum, "allow_unk": unknown}
    limits = torch.full((len(rows),), limit)
    last = torch.tensor([row[-1] for row in rows])
    arguments = {"limits": limits}
    memory = model.encode(*rectangle(rows))
    coldest = draw_all(network, rows, SamplingConfig(temperature=0, **common), limits=[limit] * len(rows))
    narrow = DecodingConfig(beam_size=1, **common)
    for run in (greedy, beam_search, search):
        found = run(model, memory, config=narrow, start_tokens=last, **arguments)
        assert_same(coldest, [one for [one] in found])


@given(networks, prompts, chances)
def test_log_probs_equal_the_definition(network: PrefixModel, rows: list[list[int]], wanted: SamplingConfig) -> None:
    for row, one in zip(rows, draw_all(network, rows, wanted, limits=[5] * len(rows)), strict=True):
        symbols = [*one.tokens, SYMBOLS.eos] if one.finished else [*one.tokens]
        expected = [network.log_probs((), (*row, *one.tokens[:place]))[symbol] for place, symbol in enumerate(symbols)]
        assert one.token_log_probs == pytest.approx(expected, abs=1e-5)
        assert one.log_prob == pytest.approx(math.fsum(expected), abs=1e-4)
        assert not {SYMBOLS.pad, SYMBOLS.bos, SYMBOLS.eos} & set(one.tokens)


@dataclass(frozen=True)
class ContextProbe(PrefixModel):
    """Model that receives the last tokens of prompt and output, as many as the sliding rule allows."""

    context: int = 1
    kept: int = 1
    inner: PrefixModel = PrefixModel()  # noqa: RUF009  # it is frozen

    def logits(self, source: Sequence[int], prefix: Sequence[int]) -> list[float]:
        text = [*source, *prefix]
        shown = len(source) + 1 if len(source) < self.context else self.kept
        for _ in prefix[1:]:
            shown = self.kept if shown == self.context else shown + 1
        return self.inner.logits((), text[len(text) - shown :])


@given(networks, prompts, chances, st.sampled_from([1, 2, 3, 4, 5, 8]), st.integers(1, 13))
def test_sliding_context_follows_its_rule(
    network: PrefixModel, rows: list[list[int]], wanted: SamplingConfig, context: int, limit: int
) -> None:
    """The slow twin cuts the whole text again for every token."""
    kept = tokens_after_slide(context)
    twin = ContextProbe(words=network.words, context=context, kept=kept, inner=network)
    starts = [OutputStart(row[-1], tuple(row), (number, 0)) for number, row in enumerate(rows)]
    memory = device_memory(Sources(tuple(tuple(row[:-1]) for row in rows)))
    expected = run_any_search(
        TorchBackend(twin), memory, limits=np.full(len(rows), limit), config=wanted, starts=starts
    )
    found = draw_all(network, rows, wanted, limits=[limit] * len(rows), context=context)
    assert_same(found, [one for [one] in expected])
    assert kept >= 3 * context // 4 or context < 4


def greedy_step(tokens: list[int]) -> SamplingStep:
    """Return a step that takes the most probable tokens."""
    return SamplingStep(
        SamplingConfig(temperature=0),
        suppress_tokens=[],
        too_short=np.zeros(len(tokens), dtype=bool),
        context=np.zeros((len(tokens), 0), dtype=np.int64),
        uniforms=[0.0] * len(tokens),
    )


def log_probs_by_steps(model: DecoderOnlyTransformer, text: list[int], *, prompt: int, context: int) -> list[float]:
    """Return the best log-probabilities of a sliding model after each token, from the last prompt token on."""
    sliding = sliding_model(model, context=context)
    memory = sliding.encode([text[:prompt]])
    state = sliding.start(memory, beam_size=1)
    found = []
    for token in text[prompt - 1 :]:
        _, [log_prob], state = sliding.sample(np.array([[token]]), memory, state, step=greedy_step([token]))
        found.append(log_prob.item())
    return found


@pytest.mark.parametrize("positions", [LearnedConfig(max_length=11), RotaryConfig()], ids=["learned", "rotary"])
@pytest.mark.parametrize("prompt", [1, 3, 11, 12, 29])
def test_sliding_equals_reading_the_window(positions: LearnedConfig | RotaryConfig, prompt: int) -> None:
    config = DecoderOnlyConfig(d_model=12, num_heads=2, d_ff=19, num_layers=2, positions=positions, dropout=NO_DROPOUT)
    model = random_causal(config, vocabulary=13)
    context, kept = 11, 9
    text = torch.randint(4, 13, (41,), generator=torch.Generator().manual_seed(3)).tolist()
    with torch.inference_mode():
        found = log_probs_by_steps(model, text, prompt=prompt, context=context)
        shown = prompt if prompt <= context else kept
        for end, log_prob in enumerate(found, start=prompt):
            logits = model(torch.tensor([text[end - shown : end]]))[0, -1].log_softmax(-1)
            assert log_prob == pytest.approx(logits.max().item(), abs=1e-4)
            shown = kept if shown == context else shown + 1


def test_sliding_states_follow_their_rows() -> None:
    """`select` and `concat` in the middle of texts that have slid a different number of times."""
    model = sliding_model(TextModel(PrefixModel(words=5)), context=4)
    rows = [[4], [5, 6, 7, 8, 4], [6, 6, 6]]
    state_of, memories = {}, {}
    texts = {0: [4, 5, 6, 7, 8, 4], 1: [5, 6, 7, 8, 4, 5, 6], 2: [6, 6, 6, 7]}
    for number, row in enumerate(rows):
        memories[number] = model.encode([row])
        state = model.start(memories[number], beam_size=1)
        for token in texts[number][len(row) - 1 :]:
            _, _, state = model.sample(np.array([[token]]), memories[number], state, step=greedy_step([token]))
        state_of[number] = state
    together = state_of[0].concat(state_of[1]).concat(state_of[2])
    memory = memories[0].concat(memories[1]).concat(memories[2])
    assert [len(ids) for ids in memory.seen] == [1, 3, 3]
    order = np.array([2, 0, 1, 0])
    latest = [7, 8, 4, 5]
    tokens = np.array(latest)[:, None]
    best, log_probs, _ = model.sample(tokens, memory.select(order), together.select(order), step=greedy_step(latest))
    for place, number in enumerate(order.tolist()):
        one, alone, _ = model.sample(
            tokens[place : place + 1], memories[number], state_of[number], step=greedy_step(latest[:1])
        )
        assert best[place] == one[0]
        assert log_probs[place] == pytest.approx(alone[0])
