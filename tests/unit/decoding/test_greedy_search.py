"""Sampling: random numbers, filters, limits and refused options."""

import itertools
import math

import numpy as np
import pytest
import torch

from dragoman.config import parse
from dragoman.decoding import OutputStart, SamplingConfig, sampling_search, search
from dragoman.decoding.greedy_search import uniform_number
from dragoman.decoding.numpy_logits_operations import NumpyOperations
from dragoman.decoding.sampling import SamplingStep, filter_logits, invert_cdf, sample_next
from dragoman.decoding.torch_logits_operations import TorchOperations
from dragoman.errors import ConfigError, RunError
from dragoman.inference.backends.torch_backend import TorchBackend
from tests.fake_models import SYMBOLS, PrefixModel, Sources
from tests.tensor_search import device_memory

A, B = 4, 5


def drawn(network: PrefixModel, *, rows: int = 1, limit: int = 7, starts=None, **settings):
    memory = device_memory(Sources(((4,),) * rows))
    wanted = SamplingConfig(**settings)
    found = search(TorchBackend(network), memory, limits=np.full(rows, limit), config=wanted, starts=starts)
    return [one for [one] in found]


def next_on_both(logits: torch.Tensor, uniforms: list[float], suppress_tokens: list[int], settings: SamplingConfig):
    """Return tokens and log-probabilities, which are the same for tensors and for arrays."""
    rows = len(logits)
    step = SamplingStep(
        settings,
        suppress_tokens=suppress_tokens,
        too_short=np.zeros(rows, dtype=bool),
        context=np.zeros((rows, 0), dtype=np.int64),
        uniforms=uniforms,
    )
    tokens, log_probs = sample_next(logits, step, TorchOperations)
    same_tokens, same_log_probs = sample_next(logits.numpy(), step, NumpyOperations)
    assert tokens.tolist() == same_tokens.tolist()
    assert log_probs.tolist() == pytest.approx(same_log_probs.tolist(), abs=1e-6)
    return tokens, log_probs


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"temperature": 0, "top_k": 5}, "top_k has no effect with temperature = 0"),
        ({"temperature": 0, "top_p": 0.5}, "top_p has no effect with temperature = 0"),
        ({"temperature": 0, "min_p": 0.5}, "min_p has no effect with temperature = 0"),
        ({"temperature": 0, "typical_p": 0.5}, "typical_p has no effect with temperature = 0"),
        ({"temperature": 1e-9}, "temperature = 1e-09 is too small to divide by"),
        ({"temperature": -1}, "temperature = -1"),
        ({"temperature": math.inf}, "temperature = inf"),
        ({"top_p": 1.5}, "top_p = 1.5: must be at most 1"),
        ({"top_p": 0.0}, "top_p = 0.0"),
        ({"min_p": 1.5}, "min_p = 1.5"),
        ({"top_k": 0}, "top_k = 0"),
        ({"repetition_penalty": 0}, "repetition_penalty = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"temprature": 1}, "temprature: no such key. Did you mean temperature?"),
    ],
)
def test_invalid_options_are_refused(tree, message):
    with pytest.raises(ConfigError) as caught:
        parse(SamplingConfig, tree)
    assert message in str(caught.value)


def test_repetition_filters_need_the_context():
    settings = parse(SamplingConfig, {"temperature": 0, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2})
    assert settings.needs_context
    assert not SamplingConfig().needs_context


@pytest.mark.parametrize(
    ("number", "token"), [(0.0, 1), (0.2499, 1), (0.2501, 2), (0.7499, 2), (0.7501, 4), (0.9999, 4)]
)
def test_invert_cdf(number, token):
    logits = torch.tensor([[0.0, 0.25, 0.5, 0.0, 0.25, 0.0]]).log()
    assert invert_cdf(logits, [number], TorchOperations).tolist() == [token]
    assert invert_cdf(logits.numpy(), [number], NumpyOperations).tolist() == [token]


def test_invert_cdf_never_returns_an_impossible_token():
    generator = torch.Generator().manual_seed(0)
    for size in (2, 31, 997):
        logits = torch.randn(5, size, generator=generator)
        logits[:, -1] = -math.inf
        assert (invert_cdf(logits, [1 - 2.0**-53] * 5, TorchOperations) < size - 1).all()
        assert (invert_cdf(logits.numpy(), [1 - 2.0**-53] * 5, NumpyOperations) < size - 1).all()


def test_uniform_numbers_depend_on_every_argument():
    numbers = [
        uniform_number(seed, (first, second), step)
        for seed in (0, 1, 2**64 - 1)
        for first in (0, 1)
        for second in (0, 1)
        for step in (0, 1)
    ]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 1 for number in numbers)
    assert uniform_number(3, (5, 7), 11) == uniform_number(3, (5, 7), 11)
    assert uniform_number(3, (5, 7), 11) != uniform_number(3, (7, 5), 11)


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x64-10 written out (Salmon et al., 2011, section 3.3)."""
    a, b, c, d = counter
    first, second = key
    for _ in range(10):
        one, two = a * 0xD2E7470EE14C6C93, c * 0xCA5A826395121157
        a, b, c, d = (two >> 64) ^ b ^ first, two % 2**64, (one >> 64) ^ d ^ second, one % 2**64
        first, second = (first + 0x9E3779B97F4A7C15) % 2**64, (second + 0xBB67AE8584CAA73B) % 2**64
    return [a, b, c, d]


def test_uniform_numbers_equal_philox():
    """A seed gives the same samples on every machine and with every version."""
    # The known answer of the authors' own library for zeros.
    zeros = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert philox([0] * 4, [0] * 2) == zeros
    for seed, first, second, step in [(0, 0, 0, 0), (1, 2, 3, 5), (2**64 - 1, 7, 11, 13)]:
        word = philox([step + 1, second, 0, 0], [seed, first])[0]
        assert uniform_number(seed, (first, second), step) == (word >> 11) / 2**53


def test_log_prob_is_computed_before_filtering():
    logits = torch.tensor([[-math.inf, 0.1, 0.0, 0.2, 0.5, 0.2]]).log_softmax(-1)
    settings = SamplingConfig(top_k=1, temperature=3.0)
    tokens, log_probs = next_on_both(logits, [0.9], [0, 2], settings)
    assert tokens.tolist() == [4]
    assert log_probs.tolist() == pytest.approx(logits[:, 4].tolist())


def test_impossible_row_has_log_prob_minus_infinity():
    for temperature in (0.0, 1.0):
        settings = SamplingConfig(temperature=temperature)
        _, log_probs = next_on_both(torch.zeros(2, 4), [0.1, 0.9], [0, 1, 2, 3], settings)
        assert log_probs.tolist() == [-math.inf, -math.inf]


def test_filters_apply_in_order():
    """The penalty applies first, then the temperature, top-k and top-p."""
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    context = torch.tensor([[1]])
    by_hand = logits * torch.tensor([[1.0, 10.0, 1.0, 1.0]]) / 2
    plain = SamplingConfig(temperature=2.0, repetition_penalty=10.0)
    torch.testing.assert_close(filter_logits(logits, context, config=plain, ops=TorchOperations), by_hand)
    # Of the three best that are left, 0, 2 and 3, the first has 0.53 of the probability, the first two 0.83.
    few = plain.model_copy(update={"top_k": 3, "top_p": 0.7})
    assert (filter_logits(logits, context, config=few, ops=TorchOperations) > -math.inf).tolist() == [
        [True, False, True, False]
    ]
    colder = few.model_copy(update={"temperature": 0.5})
    assert (filter_logits(logits, context, config=colder, ops=TorchOperations) > -math.inf).tolist() == [
        [True, False, False, False]
    ]


def test_outputs_respect_min_length_and_limit():
    for one in drawn(PrefixModel(end_bias=-30.0), rows=5, limit=3):
        assert len(one.tokens) == 3
        assert not one.finished
    for one in drawn(PrefixModel(end_bias=5.0), rows=31, limit=9, min_length=2):
        assert len(one.tokens) >= 2
        assert one.finished


def test_special_symbols_are_never_sampled():
    tokens = {token for one in drawn(PrefixModel(end_bias=-2.0), rows=97) for token in one.tokens}
    assert tokens == {4, 5, 6}
    tokens = {token for one in drawn(PrefixModel(end_bias=-2.0), rows=97, allow_unk=True) for token in one.tokens}
    assert tokens == {SYMBOLS.unk, 4, 5, 6}


def test_ngrams_do_not_repeat():
    network = PrefixModel(words=2, end_bias=-30.0)
    starts = [OutputStart(B, (A, B), (row, 0)) for row in range(31)]

    def repeats(**settings) -> int:
        texts = [[A, B, *one.tokens] for one in drawn(network, rows=31, limit=9, starts=starts, **settings)]
        pairs = [list(itertools.pairwise(text)) for text in texts]
        return sum(len(row) - len(set(row)) for row in pairs)

    assert repeats() > 100
    assert repeats(no_repeat_ngram_size=2) == 0


def test_complete_rows_are_not_sampled():
    network = PrefixModel(end_bias=-30.0)
    memory, limits = device_memory(Sources(((4,), (5,), (6,)))), np.array([5, 5, 2])
    observed: list[tuple[int, int]] = []

    def observer(row: int):
        def is_complete(token: int, *_: object) -> bool:
            observed.append((row, token))
            return row == 1 and sum(number == 1 for number, _ in observed) == 3

        return lambda: is_complete

    searching = sampling_search(TorchBackend(network), config=SamplingConfig())
    searching.add(memory, limits=limits, starts=[OutputStart(observe=observer(row)) for row in range(3)])
    steps = []
    while len(searching):
        before = len(observed)
        searching.step()
        steps.append([row for row, _ in observed[before:]])
    assert steps[:5] == [[0, 1, 2], [0, 1, 2], [0, 1], [0], [0]]
    assert not any(steps[5:])


def test_non_finite_logits_raise_an_error():
    with pytest.raises(RunError, match="not finite numbers"):
        drawn(PrefixModel(end_bias=math.nan))


def test_outputs_follow_given_tokens():
    """The given tokens come first and are not part of the output."""
    network = PrefixModel(end_bias=2.0)
    starts = [OutputStart(A, key=(0, 0)), OutputStart(B, key=(1, 0))]
    for one, first in zip(drawn(network, rows=2, starts=starts), (A, B), strict=True):
        symbols = [*one.tokens, SYMBOLS.eos] if one.finished else one.tokens
        for place, (symbol, log_prob) in enumerate(zip(symbols, one.token_log_probs, strict=True)):
            expected = network.log_probs((4,), (first, *one.tokens[:place]))[symbol]
            assert log_prob == pytest.approx(expected, abs=1e-5)
