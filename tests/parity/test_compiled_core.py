"""The compiled core gives the log-probabilities of the PyTorch model that its weights are from."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.models.transformer.config import CausalConfig
from tests import compiled as made
from tests.compiled import AnyConfig

CLOSE = 1e-4


@st.composite
def texts(draw: st.DrawFn, vocabulary: int, *, most: int = 23) -> list[list[int]]:
    words = st.integers(0, vocabulary - 1)
    return draw(st.lists(st.lists(words, min_size=1, max_size=most), min_size=1, max_size=4))


def steps_of(seed: int, batch: int, beam: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tokens of each step, and the parents that are selected before it."""
    generator = np.random.default_rng(seed)
    return [
        (
            generator.integers(made.VOCABULARY, size=(batch, beam), dtype=np.int32),
            generator.integers(beam, size=(batch, beam), dtype=np.int32),
        )
        for _ in range(count)
    ]


@torch.no_grad()
def both(config: AnyConfig, rows: list[list[int]], beam: int, seed: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of five steps by the core and by PyTorch: `[steps, batch, beam, vocabulary]`."""
    network = made.network_of(config)
    core = made.compiled(config, network, **options)
    ids, lengths = made.rectangle(rows)
    memory, twin_memory = core.encode(ids, lengths), network.encode(made.tensor(ids), made.tensor(lengths))
    state, twin_state = core.start(memory, beam), network.start(twin_memory, beam=beam)
    ours, theirs = [], []
    for tokens, parents in steps_of(seed, len(rows), beam, 5):
        state, twin_state = state.select(parents), twin_state.select(made.tensor(parents))
        logits, state = core.step(tokens, memory, state)
        twin, twin_state = network.step(made.tensor(tokens), twin_memory, twin_state)
        ours.append(torch.from_numpy(logits).log_softmax(dim=-1).numpy())
        theirs.append(twin.log_softmax(dim=-1).numpy())
    return np.array(ours), np.array(theirs)


@pytest.mark.parametrize("instruction_set", made.INSTRUCTION_SETS)
@settings(deadline=None, max_examples=40)
@given(st.one_of(made.seq2seq_configs(), made.causal_configs()), st.data())
def test_float32_is_as_pytorch(instruction_set: str, config: AnyConfig, data: st.DataObject) -> None:
    vocabulary = made.VOCABULARY if isinstance(config, CausalConfig) or config.tie == "all" else made.SOURCE_VOCABULARY
    rows = data.draw(texts(vocabulary))
    beam, seed = data.draw(st.sampled_from([1, 2, 5])), data.draw(st.integers(0, 7))
    ours, theirs = both(config, rows, beam, seed, instruction_set=instruction_set)
    np.testing.assert_allclose(ours, theirs, atol=CLOSE, rtol=CLOSE)
