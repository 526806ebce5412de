"""PyTorch's recurrent modules with the same weights give the same states, outputs and gradients."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.nn.attention_score_functions import AdditiveConfig, ScaledDotConfig
from dragoman.nn.recurrent.cells import CellWeights, cell_step, num_states, project_input, unstack_states
from tests.fake_models import SYMBOLS, rectangle
from tests.random_recurrent_models import NO_DROPOUT, random_recurrent
from tests.reference_layers import bidirectional_reference

CELLS = pytest.mark.parametrize("cell", ["lstm", "gru"])
MODULES = {"lstm": nn.LSTM, "gru": nn.GRU}
STEPS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
SIZE, EMBEDDING, VOCABULARY = 14, 11, 43
SOURCES = [[5, 11, 7, 13, 41, 3], [17, 3], [29, 31, 5, 3]]
TARGETS = [[19, 23, 37], [5, 7, 11, 13, 41, 4, 4], []]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ours(**options) -> RecurrentEncoderDecoder:
    chosen = {"d_model": SIZE, "embedding_size": EMBEDDING, "tie_embeddings": "none", "dropout": NO_DROPOUT} | options
    return random_recurrent(RecurrentConfig(**chosen), source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


@CELLS
def test_cell_equals_pytorch(cell):
    """Ten steps of one cell."""
    theirs = STEPS[cell](EMBEDDING, SIZE)
    weights = CellWeights(theirs.weight_ih, theirs.weight_hh, theirs.bias_ih, theirs.bias_hh)
    state = tuple(random(3, SIZE, seed=part) for part in range(num_states(cell)))
    other = state if cell == "lstm" else state[0]
    for place in range(10):
        x = random(3, EMBEDDING, seed=100 + place)
        state = cell_step(cell, weights, project_input(cell, weights, x), state)
        other = theirs(x, other)
        torch.testing.assert_close(state, other if cell == "lstm" else (other,), **CLOSE)


@torch.no_grad()
def stacked(mine: list[nn.RNNBase], kind: type[nn.RNNBase], *, both_ways: bool) -> nn.RNNBase:
    """Return one PyTorch module of several layers from several modules of one layer."""
    first = mine[0]
    twin = kind(first.input_size, first.hidden_size, len(mine), batch_first=True, bidirectional=both_ways)
    for number, layer in enumerate(mine):
        for name, parameter in layer.named_parameters():
            getattr(twin, name.replace("_l0", f"_l{number}")).copy_(parameter)
    return twin


def gradients(output: Tensor, of: list[Tensor]) -> list[Tensor]:
    return torch.autograd.grad(output, of, random(*output.shape, seed=7), retain_graph=True)


@CELLS
@pytest.mark.parametrize("implementation", ["fast", "slow"])
def test_encoder_equals_pytorch(cell, implementation, monkeypatch):
    """Three bidirectional layers over sentences of different lengths, packed and padded."""
    encoder = ours(cell=cell, encoder_layers=3).encoder
    if implementation == "slow":
        for layer in encoder.layers:
            monkeypatch.setattr(layer, "forward", lambda *inputs, layer=layer: bidirectional_reference(layer, *inputs))
    twin = stacked([layer.layer for layer in encoder.layers], MODULES[cell], both_ways=True)
    lengths, x = torch.tensor([3, 7, 1, 5]), random(4, 7, EMBEDDING).requires_grad_()
    outputs, last = twin(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    theirs, _ = pad_packed_sequence(outputs, batch_first=True)
    encoded = encoder(x, lengths)
    torch.testing.assert_close(encoded.states, theirs, **CLOSE)
    for part, other in enumerate(last if cell == "lstm" else (last,)):
        mine = torch.stack([layer[part] for layer in encoded.last])
        both_ways = other.unflatten(0, (3, 2)).transpose(1, 2).flatten(2)
        torch.testing.assert_close(mine, both_ways, **CLOSE)
    torch.testing.assert_close(gradients(encoded.states, [x]), gradients(theirs, [x]), **CLOSE)


@CELLS
@pytest.mark.parametrize("implementation", ["at once", "step by step"])
def test_decoder_without_attention_equals_pytorch(cell, implementation):
    """Three layers from left to right, initialized from the final encoder states."""
    model = ours(cell=cell, decoder_layers=3, attention=NoAttentionConfig())
    twin = stacked([layer.layer for layer in model.decoder.layers], MODULES[cell], both_ways=False)
    memory = model.encode(*rectangle(SOURCES))
    embedded = random(3, 7, EMBEDDING).requires_grad_()
    parts = tuple(torch.stack(layers) for layers in zip(*memory.initial_states, strict=True))
    theirs, _ = twin(embedded, parts if cell == "lstm" else parts[0])
    if implementation == "at once":
        mine = model.decoder(embedded, unstack_states(memory.initial_states), None)
    else:
        cells, columns = unstack_states(memory.initial_states), []
        for place in range(7):
            taken = model.decoder.project_input(embedded[:, place])
            output, cells = model.decoder.step(taken, cells, previous_output=None, memory=None)
            columns.append(output)
        mine = torch.stack(columns, dim=1)
    torch.testing.assert_close(mine, theirs, **CLOSE)
    trained = [embedded, model.encoder.layers[0].layer.weight_hh_l0, model.bridges[0].hidden.weight]
    torch.testing.assert_close(gradients(mine, trained), gradients(theirs, trained), **CLOSE)


@CELLS
@torch.no_grad()
def test_copied_state_of_one_direction_equals_pytorch(cell):
    """Two layers from left to right, whose final states begin those of the decoder (Sutskever et al., 2014)."""
    options = {"encoder_layers": 2, "decoder_layers": 2, "bidirectional": False, "bridge": "copy"}
    model = ours(cell=cell, attention=NoAttentionConfig(), scale_embedding=False, **options)
    encoder, decoder = (
        stacked([layer.layer for layer in layers], MODULES[cell], both_ways=False)
        for layers in (model.encoder.layers, model.decoder.layers)
    )
    source, lengths = rectangle(SOURCES)
    target = torch.tensor([[SYMBOLS.bos, 19, 23, 37]]).expand(len(SOURCES), -1)
    for row, length in enumerate(lengths.tolist()):
        _, last = encoder(model.source_embedding.tokens.weight[source[row : row + 1, :length]])
        theirs, _ = decoder(model.target_embedding.tokens.weight[target[:1]], last)
        mine = model.hidden(source, lengths, target)[row : row + 1]
        torch.testing.assert_close(mine, theirs, **CLOSE)
    assert not list(model.bridges.parameters())


def reference_decoder(model: RecurrentEncoderDecoder, cell: str, weigh_words) -> Tensor:
    """Return the hidden states of Luong et al. (2015) with input feeding, position by position."""
    step = STEPS[cell](EMBEDDING + SIZE, SIZE)
    decoder, weights = model.decoder, CellWeights.of(model.decoder.layers[0].layer)
    step.weight_ih.data = torch.cat([weights.input, decoder.input_feeding.weight], dim=1)
    step.weight_hh.data, step.bias_ih.data, step.bias_hh.data = weights.hidden, weights.input_bias, weights.hidden_bias
    rows = []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        words = model.source_embedding.tokens.weight[source] * EMBEDDING**0.5
        states, last = model.encoder.layers[0].layer(words[None])
        ends = [torch.cat(list(part[:, 0])) for part in (last if cell == "lstm" else (last,))]
        state = [torch.tanh(model.bridges[0].hidden(ends[0]))]
        state += [linear(end) for linear, end in zip(model.bridges[0].rest, ends[1:], strict=True)]
        attentional, outputs = torch.zeros(SIZE), []
        for word in [SYMBOLS.bos, *target]:
            x = torch.cat([model.target_embedding.tokens.weight[word] * EMBEDDING**0.5, attentional])
            after = step(x, tuple(state) if cell == "lstm" else state[0])
            state = list(after) if cell == "lstm" else [after]
            context = weigh_words(model, state[0], states[0]) @ states[0]
            attentional = torch.tanh(decoder.attention.combine.weight @ torch.cat([context, state[0]]))
            outputs.append(attentional)
        rows.append(torch.stack(outputs))
    return torch.cat(rows)


def scaled_dot(model: RecurrentEncoderDecoder, query: Tensor, states: Tensor) -> Tensor:
    return (states @ query / SIZE**0.5).softmax(dim=0)


def additive(model: RecurrentEncoderDecoder, query: Tensor, states: Tensor) -> Tensor:
    score = model.decoder.attention.score
    hidden = torch.tanh(states @ score.key_weight[0] + query @ score.query_weight[0])
    return (hidden @ score.vector[0]).softmax(dim=0)


@CELLS
@pytest.mark.parametrize(("score", "weigh_words"), [(ScaledDotConfig(), scaled_dot), (AdditiveConfig(), additive)])
@torch.no_grad()
def test_attention_with_input_feeding_equals_the_equations(cell, score, weigh_words):
    model = ours(cell=cell, attention=score)
    source, lengths = rectangle(SOURCES)
    target, target_lengths = rectangle([[SYMBOLS.bos, *row] for row in TARGETS])
    real = torch.arange(target.shape[1]) < target_lengths[:, None]
    mine = model.hidden(source, lengths, target)[real]
    torch.testing.assert_close(mine, reference_decoder(model, cell, weigh_words), **CLOSE)
