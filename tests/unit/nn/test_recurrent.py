"""Recurrent cells, encoder, attention and decoder compared with their equations."""

import math

import pytest
import torch
from torch import Tensor, nn

from dragoman.nn.attention_score_functions import AdditiveConfig, DotConfig, ScoreConfig, build_score
from dragoman.nn.dropout import Dropout
from dragoman.nn.masks import padding_mask
from dragoman.nn.recurrent.cells import (
    CellWeights,
    cell_step,
    gru_cell,
    lstm_cell,
    num_states,
    project_input,
)
from dragoman.nn.recurrent.decoder import DecoderInit, RecurrentDecoder, RecurrentLayer
from dragoman.nn.recurrent.encoder import RecurrentEncoder, RecurrentEncoderLayer
from dragoman.nn.recurrent.global_attention import AttentionMemory, SourceAttention
from tests.reference_layers import bidirectional_reference

CELLS = pytest.mark.parametrize("cell", ["lstm", "gru"])
GATES = {"lstm": 4, "gru": 3}


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_lstm_cell_by_hand():
    i, f, g, o, before = 0.3, -0.7, 1.1, 0.2, 0.5
    hidden, cell = lstm_cell(torch.tensor([[before]]), torch.tensor([[i, f, g, o]]))
    expected = sigmoid(f) * before + sigmoid(i) * math.tanh(g)
    assert float(cell) == pytest.approx(expected)
    assert float(hidden) == pytest.approx(sigmoid(o) * math.tanh(expected))


def test_lstm_gates_preserve_cell_state():
    before, shut = random(2, 3), torch.full((2, 3), -50.0)
    hidden, cell = lstm_cell(before, torch.cat([shut, -shut, random(2, 3, seed=1), -shut], dim=1))
    torch.testing.assert_close(cell, before)
    torch.testing.assert_close(hidden, before.tanh())


def test_gru_cell_by_hand():
    before, taken, mapped = 0.5, (0.3, -0.7, 1.1), (0.2, 0.4, -0.6)
    hidden = gru_cell(torch.tensor([[before]]), torch.tensor([taken]), torch.tensor([mapped]))
    r, z = sigmoid(taken[0] + mapped[0]), sigmoid(taken[1] + mapped[1])
    n = math.tanh(taken[2] + r * mapped[2])
    assert float(hidden) == pytest.approx(z * before + (1 - z) * n)


def test_gru_update_gate_preserves_state():
    before, taken = random(2, 3), random(2, 9, seed=1)
    taken[:, 3:6] = 50.0
    torch.testing.assert_close(gru_cell(before, taken, random(2, 9, seed=2)), before)


@CELLS
def test_gate_and_state_counts(cell):
    layer = RecurrentLayer(cell=cell, input_size=5, size=3)
    weights = CellWeights.of(layer.layer)
    assert weights.input.shape == (3 * GATES[cell], 5)
    assert weights.hidden.shape == (3 * GATES[cell], 3)
    state = (torch.zeros(2, 3),) * num_states(cell)
    assert len(cell_step(cell, weights, project_input(cell, weights, random(2, 5)), state)) == num_states(cell)


@CELLS
def test_layer_equals_single_steps(cell):
    layer = RecurrentLayer(cell=cell, input_size=5, size=3)
    x, state = random(2, 7, 5), tuple(random(2, 3, seed=seed) for seed in range(num_states(cell)))
    at_once = layer(x, state)
    for place, taken in enumerate(layer.project_input(x).unbind(dim=1)):
        state = layer.step(taken, state)
        torch.testing.assert_close(state[0], at_once[:, place])


@CELLS
def test_encoder_directions_depend_on_their_side(cell):
    """A token changes the forward half from its position on, and the backward half up to its position."""
    layer = RecurrentEncoderLayer(cell=cell, input_size=5, size=6, bidirectional=True)
    x, lengths = random(1, 7, 5), torch.tensor([7])
    changed = x.clone()
    changed[0, 2] += 1
    (before, _), (after, _) = layer(x, lengths), layer(changed, lengths)
    differs = (before != after)[0].unflatten(1, (2, 3)).any(dim=2)
    assert differs[:, 0].tolist() == [False] * 2 + [True] * 5
    assert differs[:, 1].tolist() == [True] * 3 + [False] * 4


@CELLS
@pytest.mark.parametrize("implementation", [RecurrentEncoderLayer.forward, bidirectional_reference])
def test_final_states_ignore_padding(cell, implementation):
    layer = RecurrentEncoderLayer(cell=cell, input_size=5, size=6, bidirectional=True)
    lengths = torch.tensor([2, 7, 1])
    states, last = implementation(layer, random(3, 7, 5), lengths)
    assert len(last) == num_states(cell)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(last[0][row, :3], states[row, length - 1, :3])
        torch.testing.assert_close(last[0][row, 3:], states[row, 0, 3:])
        assert not states[row, length:].any()


@CELLS
def test_bidirectional_reference_equals_layer(cell):
    layer = RecurrentEncoderLayer(cell=cell, input_size=5, size=6, bidirectional=True)
    x, lengths = random(3, 7, 5), torch.tensor([2, 7, 1])
    torch.testing.assert_close(bidirectional_reference(layer, x, lengths), layer(x, lengths))


def test_encoder_layers_are_stacked():
    layers = [RecurrentEncoderLayer(cell="gru", input_size=size, size=6, bidirectional=True) for size in (5, 6)]
    x, lengths = random(2, 7, 5), torch.tensor([3, 7])
    encoded = RecurrentEncoder(layers=layers, dropout=0.0)(x, lengths)
    below, first = layers[0](x, lengths)
    above, second = layers[1](below, lengths)
    torch.testing.assert_close((encoded.states, encoded.last), (above, (first, second)))


def test_decoder_init_bounds_hidden_state_only():
    bridge = DecoderInit(bridge="linear", cell="lstm", encoder_size=6, size=5)
    last = (random(2, 6), 10 * random(2, 6, seed=1))
    hidden, cell = bridge(last)
    torch.testing.assert_close(hidden, bridge.hidden(last[0]).tanh())
    torch.testing.assert_close(cell, bridge.rest[0](last[1]))
    assert len(DecoderInit(bridge="linear", cell="gru", encoder_size=6, size=5)(last[:1])) == 1


def attention(config: ScoreConfig, *, size: int = 5, value_size: int = 5) -> SourceAttention:
    score = build_score(config, query_size=size, key_size=value_size, heads=1, key_heads=1)
    return SourceAttention(score=score, size=size, value_size=value_size)


def view_of(layer: SourceAttention, encoded: Tensor, lengths: list[int]) -> AttentionMemory:
    return AttentionMemory(layer.keys_values(encoded), padding_mask(torch.tensor(lengths), encoded.shape[1]))


def test_source_attention_by_hand():
    """One query for each of two sentences of different length."""
    layer = attention(DotConfig(), size=2, value_size=2)
    encoded = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[3.0, 1.0], [7.0, 7.0]]])
    query = torch.tensor([[[1.0, 2.0]], [[5.0, -1.0]]])
    view = view_of(layer, encoded, [2, 1])
    first = math.exp(1) / (math.exp(1) + math.exp(4))
    weights = torch.tensor([[[first, 1 - first]], [[1.0, 0.0]]])
    context = torch.tensor([[[first, 2 * (1 - first)]], [[3.0, 1.0]]])
    torch.testing.assert_close(layer.weights(query, view), weights)
    torch.testing.assert_close(layer.context(query, view), context)
    combined = torch.cat([context, query], dim=2) @ layer.combine.weight.t()
    torch.testing.assert_close(layer(query, view), combined.tanh())


def test_additive_attention_equals_equation():
    layer = attention(AdditiveConfig(hidden_size=7), size=5, value_size=6)
    encoded, query = random(2, 4, 6), random(2, 3, 5, seed=1)
    score, view = layer.score, view_of(layer, encoded, [4, 2])
    for row, length in enumerate([4, 2]):
        for number in range(3):
            from_query = query[row, number] @ score.query_weight[0]
            logits = [torch.tanh(from_query + word @ score.key_weight[0]) @ score.vector[0] for word in encoded[row]]
            weights = torch.stack(logits)[:length].softmax(dim=0)
            torch.testing.assert_close(layer.weights(query, view)[row, number, :length], weights)
            torch.testing.assert_close(layer.context(query, view)[row, number], weights @ encoded[row, :length])


def decoder(*, feeds_input: bool, looks: bool = True, cell: str = "lstm", layers: int = 2, **dropout: float):
    sizes = [7] + [5] * (layers - 1)
    return RecurrentDecoder(
        layers=[RecurrentLayer(cell=cell, input_size=size, size=5) for size in sizes],
        attention=attention(AdditiveConfig(), value_size=6) if looks else None,
        use_input_feeding=feeds_input,
        layer_dropout=dropout.get("layer_dropout", 0.0),
        output_dropout=dropout.get("output_dropout", 0.0),
    )


def first_cells(cell: str, layers: int, rows: int) -> tuple[tuple[Tensor, ...], ...]:
    return tuple(
        tuple(random(rows, 5, seed=10 * layer + part) for part in range(num_states(cell))) for layer in range(layers)
    )


@CELLS
@pytest.mark.parametrize("feeds_input", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_decoder_equals_equations(cell, feeds_input, layers):
    model = decoder(feeds_input=feeds_input, cell=cell, layers=layers)
    embedded, encoded = random(2, 4, 7), random(2, 3, 6, seed=1)
    view = view_of(model.attention, encoded, [3, 2])
    cells = first_cells(cell, layers, 2)
    found = model(embedded, cells, view)
    states, fed = list(cells), torch.zeros(2, 5)
    for place in range(4):
        x = embedded[:, place]
        for number, layer in enumerate(model.layers):
            taken = layer.project_input(x)
            if number == 0 and feeds_input:
                taken = taken + fed @ model.input_feeding.weight.t()
            states[number] = layer.step(taken, states[number])
            x = states[number][0]
        context = (model.attention.weights(x[:, None], view) @ encoded)[:, 0]
        fed = torch.cat([context, x], dim=1) @ model.attention.combine.weight.t()
        fed = fed.tanh()
        torch.testing.assert_close(found[:, place], fed)


def test_input_feeding_equals_concatenated_input():
    """One matrix times $[x; h]$ equals the sum of its halves times $x$ and $h$."""
    model, cells = decoder(feeds_input=True, layers=1), first_cells("lstm", 1, 2)
    view = view_of(model.attention, random(2, 3, 6, seed=1), [3, 2])
    x, fed = random(2, 7), random(2, 5, seed=2)
    output, _ = model.step(model.project_input(x), cells, previous_output=fed, memory=view)
    wide = nn.LSTMCell(12, 5)
    weights = CellWeights.of(model.layers[0].layer)
    with torch.no_grad():
        wide.weight_ih.copy_(torch.cat([weights.input, model.input_feeding.weight], dim=1))
        wide.weight_hh.copy_(weights.hidden)
        wide.bias_ih.copy_(weights.input_bias)
        wide.bias_hh.copy_(weights.hidden_bias)
    hidden, _ = wide(torch.cat([x, fed], dim=1), cells[0])
    torch.testing.assert_close(output, model.attention(hidden[:, None], view)[:, 0])


def test_output_without_attention_is_top_state():
    model, cells = decoder(feeds_input=False, looks=False), first_cells("lstm", 2, 3)
    output, after = model.step(model.project_input(random(3, 7)), cells, previous_output=None, memory=None)
    assert output is after[1][0]


def test_beams_share_encoder_states():
    """Adjacent rows are the hypotheses of one sentence."""
    model, cells = decoder(feeds_input=True), first_cells("lstm", 2, 6)
    encoded = random(2, 3, 6, seed=1)
    taken, fed = model.project_input(random(6, 7)), random(6, 5, seed=2)
    shared, _ = model.step(taken, cells, previous_output=fed, memory=view_of(model.attention, encoded, [3, 2]))
    copied = view_of(model.attention, encoded.repeat_interleave(3, dim=0), [3, 3, 3, 2, 2, 2])
    alone, _ = model.step(taken, cells, previous_output=fed, memory=copied)
    torch.testing.assert_close(shared, alone)


@pytest.mark.parametrize("feeds_input", [False, True])
def test_dropout_applies_in_training_only(feeds_input):
    model = decoder(feeds_input=feeds_input, layer_dropout=0.5, output_dropout=0.5)
    view = view_of(model.attention, random(2, 3, 6, seed=1), [3, 2])
    embedded, cells = random(2, 41, 7), first_cells("lstm", 2, 2)
    share = float((model(embedded, cells, view) == 0).float().mean())
    assert share == pytest.approx(0.5, abs=0.15)
    model.eval()
    assert (model(embedded, cells, view) != 0).all()
    torch.testing.assert_close(model(embedded, cells, view), model(embedded, cells, view))
    places = {name: module.probability for name, module in model.named_modules() if isinstance(module, Dropout)}
    assert places == {"layer_dropout": 0.5, "output_dropout": 0.5}
