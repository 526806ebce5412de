"""Memory and state of recurrent models."""

import pytest
import torch

from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.models.recurrent.encoder_decoder import RecurrentMemory
from dragoman.nn.attention_score_functions import AdditiveConfig, ScaledDotConfig
from tests.fake_models import SYMBOLS, rectangle
from tests.random_recurrent_models import NO_DROPOUT, random_recurrent

VOCABULARY = 19
SOURCES = [[5, 11, 7, 13, 3], [17, 3], [9, 5, 3]]


def network(**options):
    config = RecurrentConfig(
        **{"d_model": 10, "encoder_layers": 2, "decoder_layers": 2, "dropout": NO_DROPOUT} | options
    )
    return random_recurrent(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@torch.no_grad()
def test_memory_without_attention_has_fixed_size(cell):
    """Only the initial states reach the decoder: exchanged states exchange the outputs."""
    model = network(attention=NoAttentionConfig(), cell=cell)
    long, short = (model.encode(*rectangle([source])) for source in (SOURCES[0] * 5, SOURCES[1]))
    for memory in (long, short):
        assert memory.encoder_states is None
        assert memory.attention_memory() is None
        assert [[part.shape for part in layer] for layer in memory.initial_states] == [
            [(1, 10)] * len(long.initial_states[0])
        ] * 2
    exchanged = RecurrentMemory(None, short.initial_states, long.lengths)
    tokens = torch.full((1, 1), SYMBOLS.bos)
    logits = [model.step(tokens, memory, model.start(memory, beam_size=1))[0] for memory in (exchanged, short, long)]
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[1], logits[2])


@torch.no_grad()
def test_memory_with_attention_has_all_states():
    model = network(attention=AdditiveConfig(hidden_size=7))
    memory = model.encode(*rectangle(SOURCES))
    assert memory.encoder_states.values.shape == (3, 1, 5, 10)
    assert memory.encoder_states.keys.shape == (3, 1, 5, 7)
    places = torch.arange(5)[None]
    encoded = model.encoder(model.source_embedding(rectangle(SOURCES)[0], places), memory.lengths)
    torch.testing.assert_close(memory.encoder_states.values[:, 0], encoded.states)
    torch.testing.assert_close(
        memory.encoder_states.keys[:, 0], encoded.states @ model.decoder.attention.score.key_weight[0]
    )


@pytest.mark.parametrize("attention", [AdditiveConfig(), NoAttentionConfig()])
@torch.no_grad()
def test_state_has_fixed_size(attention):
    model = network(attention=attention)
    memory = model.encode(*rectangle(SOURCES))
    state = model.start(memory, beam_size=7)
    for _ in range(3):
        _, state = model.step(torch.full((3, 7), 5), memory, state)
        shapes = {part.shape for layer in state.layer_states for part in layer}
        assert shapes == {(3, 7, 10)}
        assert state.previous_output is None if attention.kind == "none" else state.previous_output.shape == (3, 7, 10)


@torch.no_grad()
def test_input_feeding_uses_previous_output():
    """The same states with another previous output change the next step only with input feeding."""
    for feeds in (True, False):
        model = network(input_feeding=feeds)
        memory = model.encode(*rectangle(SOURCES))
        _, state = model.step(torch.full((3, 1), SYMBOLS.bos), memory, model.start(memory, beam_size=1))
        assert (state.previous_output is not None) == feeds
        if feeds:
            plain, _ = model.step(torch.full((3, 1), 5), memory, state)
            other, _ = model.step(
                torch.full((3, 1), 5), memory, type(state)(state.layer_states, state.previous_output + 1)
            )
            assert (plain != other).any(dim=-1).all()


@torch.no_grad()
def test_alignment_equals_attention_weights():
    model = network()
    memory = model.encode(*rectangle(SOURCES))
    _, state = model.step(torch.full((3, 2), SYMBOLS.bos), memory, model.start(memory, beam_size=2))
    expected, _ = model.step(torch.full((3, 2), 5), memory, state)
    weights = model.alignment(memory, state)
    logits = model.decoder.attention.score
    query = logits.queries(state.layer_states[-1][0][:, None])
    for row, length in enumerate(memory.lengths.tolist()):
        scores = logits.compare(query[row : row + 1], memory.encoder_states.keys[row : row + 1, :, :length])[0, 0]
        torch.testing.assert_close(weights[row, :, :length], scores.softmax(dim=1))
        assert not weights[row, :, length:].any()
    again, _ = model.step(torch.full((3, 2), 5), memory, state)
    assert torch.equal(expected, again)


def test_all_parameters_get_gradients():
    for attention in (AdditiveConfig(), NoAttentionConfig()):
        model = network(attention=attention, tie_embeddings="none")
        target, _ = rectangle([[SYMBOLS.bos, 5, 7], [SYMBOLS.bos], [SYMBOLS.bos, 9]])
        model(*rectangle(SOURCES), target).square().sum().backward()
        still = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()]
        assert still == []


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("attention", [AdditiveConfig(), ScaledDotConfig(), NoAttentionConfig()])
def test_half_precision_is_close(cell, attention, monkeypatch):
    model = network(cell=cell, attention=attention)
    target, _ = rectangle([[SYMBOLS.bos, 5, 7], [SYMBOLS.bos], [SYMBOLS.bos, 9]])
    plain = model.hidden(*rectangle(SOURCES), target)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # it has this LSTM only where processors have bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model.hidden(*rectangle(SOURCES), target)
    torch.testing.assert_close(half.float(), plain, atol=0.1, rtol=0.1)
    half.float().sum().backward()
    assert all(bool(one.grad.isfinite().all()) for one in model.parameters() if one.grad is not None)


@torch.no_grad()
def test_joined_memory_has_longest_width():
    model = network(attention=AdditiveConfig())
    memory = model.encode(*rectangle(SOURCES)).select(torch.tensor([1])).concat(model.encode(*rectangle(SOURCES[2:])))
    assert memory.encoder_states.length == 3
    whole = model.encode(*rectangle(SOURCES[1:]))
    tokens = torch.full((2, 1), SYMBOLS.bos)
    mine, theirs = (model.step(tokens, some, model.start(some, beam_size=1))[0] for some in (memory, whole))
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
