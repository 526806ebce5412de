"""Attention heads: statistics and rollout, gates, ablation and importance."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.interpret.attention_heads import (
    apply_gates,
    distance,
    entropy,
    head_ablation,
    head_importance,
    head_statistics,
    is_punctuation,
    open_gates,
    rollout,
    weight_on,
    without_head,
)
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


def test_gates_change_outputs_only_inside_the_block(model):
    alone = model(SOURCE, LENGTHS, TARGET)
    gates = open_gates(model)
    assert {kind: gate.shape for kind, gate in gates.items()} == {"encoder": (1, 3), "masked": (2, 3), "cross": (2, 3)}
    with apply_gates(model, gates):
        assert torch.equal(model(SOURCE, LENGTHS, TARGET), alone)
    with without_head(model, "cross", 1, 2):
        assert not torch.allclose(model(SOURCE, LENGTHS, TARGET), alone)
    assert torch.equal(model(SOURCE, LENGTHS, TARGET), alone)


@torch.no_grad()
def test_removed_head_equals_zero_output_weights(model):
    with without_head(model, "masked", 1, 0):
        outputs = model(SOURCE, LENGTHS, TARGET)
    model.decoder[1].attention.output.weight[:, :4] = 0.0
    torch.testing.assert_close(outputs, model(SOURCE, LENGTHS, TARGET))


@torch.no_grad()
def test_gates_apply_to_cached_steps(model):
    with without_head(model, "cross", 0, 1):
        memory = model.encode(SOURCE, LENGTHS)
        state = model.start(memory, beam_size=1)
        for place in range(TARGET.shape[1]):
            logits, state = model.step(TARGET[:, place, None], memory, state)
        torch.testing.assert_close(logits[:, 0], model(SOURCE, LENGTHS, TARGET)[:, -1])


@torch.no_grad()
def test_ablation_covers_every_head(model):
    with torch.no_grad():
        model.encoder[0].attention.output.weight[:, 8:] = 0.0  # the third head outputs zeros

    def metric():
        return float(model(SOURCE, LENGTHS, TARGET).log_softmax(dim=-1)[..., SYMBOLS.eos].sum())

    changes = head_ablation(model, metric)
    assert changes["encoder"][0, 2] == 0.0
    assert all((change != 0).sum() >= change.numel() - 1 for change in changes.values())
    baseline = metric()
    with without_head(model, "masked", 0, 1):
        assert changes["masked"][0, 1] == pytest.approx(metric() - baseline)


def test_importance_matches_finite_differences(model):
    def losses():
        return model(SOURCE, LENGTHS, TARGET).log_softmax(dim=-1)[..., 7].sum(dim=1)

    found = head_importance(model, (losses() for _ in range(2)))
    slopes, step = open_gates(model), 1e-6
    with torch.no_grad():
        before = losses()
        for kind, table in slopes.items():
            for layer, head in torch.cartesian_prod(*map(torch.arange, table.shape)).tolist():
                gates = {name: gate.double() for name, gate in open_gates(model).items()}
                gates[kind][layer, head] += step
                with apply_gates(model, gates):
                    table[layer, head] = (losses() - before).abs().sum() / step
    for kind, table in slopes.items():
        expected = table / table.norm(dim=1, keepdim=True)
        torch.testing.assert_close(found[kind], expected, atol=1e-3, rtol=1e-3)


def test_importance_is_independent_of_the_batch(model):
    def losses(rows):
        return model(SOURCE[rows], LENGTHS[rows], TARGET[rows]).log_softmax(dim=-1)[..., 7].sum(dim=1)

    together = head_importance(model, (losses(rows) for rows in [slice(None)]))
    alone = head_importance(model, (losses(slice(row, row + 1)) for row in range(2)))
    for kind, table in together.items():
        torch.testing.assert_close(table, alone[kind])


def test_model_without_heads_is_refused():
    config = RecurrentConfig(d_model=6, attention=SCORES["dot"])
    model = random_recurrent(config, source_vocabulary=11, target_vocabulary=11)
    with pytest.raises(DataError, match="no attention heads"):
        open_gates(model)


def maps(*, layers=2, heads=3, queries=5, keys=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(layers, heads, queries, keys, generator=generator).softmax(dim=-1)


def test_entropy_of_one_key_and_of_equal_weights():
    one = torch.eye(7).expand(2, 3, -1, -1)
    torch.testing.assert_close(entropy(one), torch.zeros(2, 3))
    torch.testing.assert_close(entropy(torch.full((2, 3, 5, 7), 1 / 7)), torch.full((2, 3), math.log(7)))


@pytest.mark.parametrize("away", [0, 1, 3])
def test_distance_of_a_constant_offset(away):
    weights = torch.zeros(1, 1, 5, 11)
    weights[..., torch.arange(5), torch.arange(5) + away] = 1.0
    assert distance(weights).item() == away


def test_queries_that_attend_to_nothing_are_skipped():
    weights = maps(layers=1, heads=1, queries=3)
    extended = torch.cat([weights, torch.zeros(1, 1, 4, 7)], dim=2)
    torch.testing.assert_close(entropy(extended), entropy(weights))
    assert entropy(torch.zeros(1, 1, 4, 7)).item() == 0.0


@given(st.integers(0, 999))
def test_weights_on_disjoint_keys_sum_to_one(seed):
    weights = maps(seed=seed)
    some = torch.tensor([True, False, False, True, True, False, False])
    torch.testing.assert_close(weight_on(weights, some) + weight_on(weights, ~some), torch.ones(2, 3))


def test_head_statistics_list_every_head():
    keys = torch.arange(7)
    rows = head_statistics("cross", maps(), punctuation=keys == 5, eos=keys == 6)
    assert [(row.layer, row.head) for row in rows] == [(layer, head) for layer in range(2) for head in range(3)]
    assert all(row.distance is None for row in rows)
    assert rows[4].on_eos == pytest.approx(maps()[1, 1, :, 6].mean().item(), abs=1e-6)
    (alone,) = head_statistics("encoder", torch.eye(7)[None, None], punctuation=keys == 5, eos=keys == 6)
    assert (alone.distance, alone.entropy) == (0.0, 0.0)
    assert alone.on_punctuation == pytest.approx(1 / 7)


@given(st.integers(0, 999))
def test_rollout_rows_sum_to_one(seed):
    rolled = rollout(maps(queries=7, seed=seed))
    torch.testing.assert_close(rolled.sum(dim=-1), torch.ones(2, 7))
    assert (rolled >= 0).all()


def test_rollout_by_hand():
    """The first layer swaps two positions, the second keeps them; one half is the residual connection."""
    swap, stay = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.eye(2)
    rolled = rollout(torch.stack([swap, stay])[:, None])
    torch.testing.assert_close(rolled[0], torch.full((2, 2), 0.5))
    torch.testing.assert_close(rolled[1], torch.full((2, 2), 0.5))
    torch.testing.assert_close(rollout(torch.stack([stay, stay])[:, None])[1], torch.eye(2))


def test_punctuation_has_no_letters_and_no_digits():
    tokens = ["▁dog", ".", "▁,", "<eos>", "▁7", "—", "▁", "s"]
    assert is_punctuation(tokens).tolist() == [False, True, True, False, False, True, True, False]
