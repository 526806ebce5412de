"""Heads left out: what gates do to a network, to searches, and to nothing else; gradients against differences."""

import pytest
import torch

from dragoman.errors import DataError
from dragoman.interpret.attention_heads import ablation, gated, open_gates, sensitivity, without_head
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.recurrent.config import RecurrentConfig
from tests.attention_variants import SCORES
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_transformer
from tests.random_recurrent_models import random_recurrent

SIZES = {"num_heads": 3, "d_model": 12, "d_ff": 7, "dropout": NO_DROPOUT, "encoder_layers": 1, "decoder_layers": 2}
SOURCE, LENGTHS = rectangle([[5, 6, 7, 8, 9], [7, 7, 5]])
TARGET, _ = rectangle([[2, 4, 8], [2, 12, 5]])


@pytest.fixture
def model():
    return random_transformer(EncoderDecoderConfig(**SIZES), source_vocabulary=13, target_vocabulary=13).double()


def test_open_gates_change_nothing_and_closed_ones_leave_no_trace(model):
    alone = model(SOURCE, LENGTHS, TARGET)
    gates = open_gates(model)
    assert {kind: gate.shape for kind, gate in gates.items()} == {"encoder": (1, 3), "masked": (2, 3), "cross": (2, 3)}
    with gated(model, gates):
        assert torch.equal(model(SOURCE, LENGTHS, TARGET), alone)
    with without_head(model, "cross", 1, 2):
        assert not torch.allclose(model(SOURCE, LENGTHS, TARGET), alone)
    assert torch.equal(model(SOURCE, LENGTHS, TARGET), alone)


@torch.no_grad()
def test_a_head_left_out_is_a_head_whose_output_weights_are_zero(model):
    with without_head(model, "masked", 1, 0):
        gated_outputs = model(SOURCE, LENGTHS, TARGET)
    model.decoder[1].attention.output.weight[:, :4] = 0.0
    torch.testing.assert_close(gated_outputs, model(SOURCE, LENGTHS, TARGET))


@torch.no_grad()
def test_steps_are_gated_as_the_parallel_pass_is(model):
    with without_head(model, "cross", 0, 1):
        memory = model.encode(SOURCE, LENGTHS)
        state = model.start(memory, beam_size=1)
        for place in range(TARGET.shape[1]):
            logits, state = model.step(TARGET[:, place, None], memory, state)
        torch.testing.assert_close(logits[:, 0], model(SOURCE, LENGTHS, TARGET)[:, -1])


@torch.no_grad()
def test_ablation_asks_about_every_head(model):
    with torch.no_grad():
        model.encoder[0].attention.output.weight[:, 8:] = 0.0  # the third head gives nothing already

    def judge():
        return float(model(SOURCE, LENGTHS, TARGET).log_softmax(dim=-1)[..., SYMBOLS.eos].sum())

    changes = ablation(model, judge)
    assert changes["encoder"][0, 2] == 0.0
    assert all((change != 0).sum() >= change.numel() - 1 for change in changes.values())
    whole = judge()
    with without_head(model, "masked", 0, 1):
        assert changes["masked"][0, 1] == pytest.approx(judge() - whole)


def test_sensitivity_is_the_slope_at_the_open_gates_of_each_row(model):
    def losses():
        return model(SOURCE, LENGTHS, TARGET).log_softmax(dim=-1)[..., 7].sum(dim=1)

    found = sensitivity(model, (losses() for _ in range(2)))
    slopes, step = open_gates(model), 1e-6
    with torch.no_grad():
        before = losses()
        for kind, table in slopes.items():
            for layer, head in torch.cartesian_prod(*map(torch.arange, table.shape)).tolist():
                gates = {name: gate.double() for name, gate in open_gates(model).items()}
                gates[kind][layer, head] += step
                with gated(model, gates):
                    table[layer, head] = (losses() - before).abs().sum() / step
    for kind, table in slopes.items():
        expected = table / table.norm(dim=1, keepdim=True)
        torch.testing.assert_close(found[kind], expected, atol=1e-3, rtol=1e-3)


def test_sensitivity_does_not_hang_on_the_batch(model):
    def losses(rows):
        return model(SOURCE[rows], LENGTHS[rows], TARGET[rows]).log_softmax(dim=-1)[..., 7].sum(dim=1)

    together = sensitivity(model, (losses(rows) for rows in [slice(None)]))
    alone = sensitivity(model, (losses(slice(row, row + 1)) for row in range(2)))
    for kind, table in together.items():
        torch.testing.assert_close(table, alone[kind])


def test_a_network_without_heads_says_so():
    config = RecurrentConfig(d_model=6, attention=SCORES["dot"])
    model = random_recurrent(config, source_vocabulary=11, target_vocabulary=11)
    with pytest.raises(DataError, match="no attention heads"):
        open_gates(model)
