"""The CPU library's log-probabilities equal those of the PyTorch model with the same weights."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.models.config import (
    CrossAttentionConfig,
    DecoderOnlyConfig,
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    SelfAttentionConfig,
    ShawConfig,
    SinusoidalConfig,
)
from dragoman.nn.attention_score_functions import AdditiveConfig
from dragoman.nn.sparse.sliding_window import SlidingWindowConfig
from tests import cpu_models as made
from tests.cpu_models import AnyConfig, Network
from tests.property_settings import examples

CLOSE = 1e-4
Batch = tuple[list[list[int]], int, int]
"""Texts, the width of the beam, and a seed for what the beams are given."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[AnyConfig, Batch]:
    config = draw(st.one_of(made.seq2seq_configs(), made.causal_configs()))
    words = st.integers(0, made.source_vocabulary(config) - 1)
    rows = draw(st.lists(st.lists(words, min_size=1, max_size=23), min_size=1, max_size=4))
    return config, (rows, draw(st.sampled_from([1, 2, 5])), draw(st.integers(0, 7)))


def choices(batch: Batch, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw the parents selected before each step, and its tokens."""
    rows, beam, seed = batch
    generator = np.random.default_rng(seed)
    shape = (len(rows), beam)
    return [
        (generator.integers(beam, size=shape), generator.integers(made.VOCABULARY, size=shape)) for _ in range(count)
    ]


def cpu_log_probs(config: AnyConfig, network: Network, batch: Batch, steps: int, **options: Any) -> np.ndarray:
    """Return the log-probabilities of some steps: `[steps, batch, beam, vocabulary]`."""
    model = made.cpu_model(config, network, **options)
    memory = model.encode(*made.padded_batch(batch[0]))
    state = model.start(memory, batch[1])
    found = []
    for parents, tokens in choices(batch, steps):
        logits, state = model.step(tokens, memory, state.reorder(parents))
        found.append(logits)
    return torch.from_numpy(np.array(found)).log_softmax(dim=-1).numpy()


@torch.no_grad()
def perturbed_model(network: Network, seed: int) -> Network:
    """Return the model in float64 with a float32 rounding error on each weight."""
    generator = torch.Generator().manual_seed(seed)
    network = copy.deepcopy(network).double()
    for weight in network.parameters():
        weight *= 1 + torch.finfo(torch.float32).eps * torch.randn(weight.shape, generator=generator)
    return network


@torch.no_grad()
def by_pytorch(network: Network, batch: Batch, steps: int) -> np.ndarray:
    ids, lengths = made.padded_batch(batch[0])
    memory: Any = network.encode(made.tensor(ids), made.tensor(lengths))
    state: Any = network.start(memory, beam_size=batch[1])
    found = []
    for parents, tokens in choices(batch, steps):
        logits, state = network.step(made.tensor(tokens), memory, state.reorder(made.tensor(parents)))
        found.append(logits.log_softmax(dim=-1))
    return torch.stack(found).numpy()


@pytest.mark.parametrize("instruction_set", made.INSTRUCTION_SETS)
@examples(30)
@given(cases())
def test_float32_equals_pytorch(instruction_set: str, case: tuple[AnyConfig, Batch]) -> None:
    """The tolerance is 1e-4, or a few times PyTorch's own rounding error if a random model amplifies it."""
    config, batch = case
    network = made.random_model(config)
    exact = by_pytorch(copy.deepcopy(network).double(), batch, 4)
    rounded = [
        by_pytorch(network, batch, 4),
        *(by_pytorch(perturbed_model(network, seed), batch, 4) for seed in range(3)),
    ]
    magnified = max(np.abs(one - exact).max() for one in rounded)
    found = cpu_log_probs(config, network, batch, 4, instruction_set=instruction_set)
    assert np.abs(found - exact).max() <= CLOSE + 20 * magnified


LOW_PRECISION = [("bfloat16", 0.15, 0.03), ("int8", 0.6, 0.08), ("int8_int16", 0.3, 0.03)]
"""Maximal and mean difference of log-probabilities."""


@pytest.mark.parametrize(("compute", "furthest", "on_average"), LOW_PRECISION)
@pytest.mark.parametrize("instruction_set", made.INSTRUCTION_SETS)
@examples(20)
@given(case=cases())
def test_low_precision_is_close_to_pytorch(
    instruction_set: str, compute: str, furthest: float, on_average: float, case: tuple[AnyConfig, Batch]
) -> None:
    """Bounds for models at the scale of trained ones; half of them exceed 0.02 (bfloat16) and 0.05 (int8)."""
    config, batch = case
    network = made.initialized_model(config)
    apart = np.abs(
        cpu_log_probs(config, network, batch, 3, compute_type=compute, instruction_set=instruction_set)
        - by_pytorch(network, batch, 3)
    )
    assert apart.max() <= furthest
    assert apart.mean() <= on_average


@examples(20)
@given(cases(), st.sampled_from([(5, 0), (3, 2), (1, 4), (0, 0)]))
def test_concatenated_states_equal_pytorch(case: tuple[AnyConfig, Batch], ages: tuple[int, int]) -> None:
    config, (rows, _, seed) = case
    network = made.initialized_model(config)
    model = made.cpu_model(config, network)
    batches = [(rows, 1, seed), (rows[::-1], 1, seed + 1)]
    memories, states, tokens, alone = [], [], [], []
    for batch, age in zip(batches, ages, strict=True):
        memory = model.encode(*made.padded_batch(batch[0]))
        state = model.start(memory, 1)
        given_ = [words for _, words in choices(batch, age + 1)]
        for words in given_[:-1]:
            _, state = model.step(words, memory, state)
        memories.append(memory)
        states.append(state)
        tokens.append(given_[-1])
        alone.append(by_pytorch(network, batch, age + 1)[-1])
    memory, state = memories[0].concat(memories[1]), states[0].concat(states[1])
    logits, _ = model.step(np.concatenate(tokens), memory, state)
    found = torch.from_numpy(logits).log_softmax(dim=-1).numpy()
    np.testing.assert_allclose(found, np.concatenate(alone), atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (DecoderOnlyConfig(positions=ShawConfig()), "shaw positions"),
        (DecoderOnlyConfig(positions=SinusoidalConfig(join="concatenate")), "positions.join = concatenate"),
        (
            DecoderOnlyConfig(attention=SelfAttentionConfig(pattern=SlidingWindowConfig(window=2))),
            "pattern sliding_window",
        ),
        (
            EncoderDecoderConfig(
                attention=EncoderDecoderAttentionConfig(cross=CrossAttentionConfig(score=AdditiveConfig()))
            ),
            r"not additive \(cross attention\)",
        ),
    ],
)
def test_unsupported_models_are_refused_with_the_reason(config: AnyConfig, named: str) -> None:
    assert made.cpu.unsupported_reason(made.cpu_config(config)) is not None
    with pytest.raises(ValueError, match=named):
        made.cpu.Model(made.cpu_config(config), {}, compute_type="float32")
