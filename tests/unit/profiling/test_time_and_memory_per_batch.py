"""Cost of batches, non-negative linear fits, and the batches that a profile trains on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching.packing import TextBatch
from dragoman.data.batching.token_budget_batches import Batch, pair_stream
from dragoman.data.datasets.parallel import TokenStore
from dragoman.profiling.time_and_memory_per_batch import (
    PARTS,
    BatchCost,
    BatchPart,
    LinearModel,
    SelectedBatches,
    batch_cost,
    fit_nonnegative,
    mean_cost,
    read_part,
    select_batches,
    survey_batches,
)

BUDGET = 61
COEFFICIENTS = st.floats(0.0, 7.0)
TABLES = st.lists(st.tuples(st.floats(0.0, 11.0), st.floats(0.0, 13.0)), min_size=1, max_size=17)


def test_cost_of_pairs_counts_positions_and_tokens():
    batch = Batch(
        source=torch.zeros(3, 7, dtype=torch.long),
        source_lengths=torch.tensor([7, 2, 1]),
        target=torch.zeros(3, 5, dtype=torch.long),
        labels=torch.zeros(3, 5, dtype=torch.long),
        target_lengths=torch.tensor([5, 4, 2]),
        rows=np.arange(3),
    )
    assert batch_cost(batch) == BatchCost(21, 15, 3 * (49 + 25), source_tokens=10, target_tokens=11, predictions=11)


def test_cost_of_texts_counts_one_sequence():
    batch = TextBatch(
        tokens=torch.zeros(2, 5, dtype=torch.long),
        labels=torch.zeros(2, 5, dtype=torch.long),
        loss_mask=torch.tensor([[True] * 3 + [False] * 2, [True] * 5]),
        document_ids=torch.tensor([[0, 0, 0, -1, -1], [0, 0, 0, 0, 0]]),
        rows=np.arange(2),
    )
    assert batch_cost(batch) == BatchCost(10, 0, 50, source_tokens=8, target_tokens=8, predictions=8)


def test_mean_cost_averages_every_field():
    one, other = BatchCost(2, 3, 5, 7, 11, 13), BatchCost(4, 5, 7, 9, 13, 15)
    assert mean_cost([one, other]) == BatchCost(3, 4, 6, 8, 12, 14)
    assert one.positions == 5
    assert one.features == (2, 3, 5)


@given(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, TABLES)
def test_fit_recovers_a_linear_model(constant, first, second, features):
    expected = LinearModel(constant, (first, second))
    found = fit_nonnegative(features, [expected.predict(feature) for feature in features])
    assert [found.predict(feature) for feature in features] == pytest.approx(
        [expected.predict(feature) for feature in features], abs=1e-4
    )


def test_fit_ignores_features_near_zero():
    assert fit_nonnegative([(0.0, 0.0), (0.0, 2e-311)], [0.0, 1.0]).slopes == (0.0, 0.0)


@given(TABLES, st.data())
def test_fit_has_no_negative_coefficients(features, data):
    numbers = data.draw(st.lists(st.floats(0.0, 17.0), min_size=len(features), max_size=len(features)))
    found = fit_nonnegative(features, numbers)
    assert found.intercept >= 0
    assert min(found.slopes) >= 0


def test_fit_is_the_nonnegative_least_squares_optimum():
    generator = np.random.default_rng(1)
    features, numbers = generator.random((19, 2)), generator.random(19)

    def error(line: LinearModel) -> float:
        return float(
            sum((line.predict(feature) - number) ** 2 for feature, number in zip(features, numbers, strict=True))
        )

    least = error(fit_nonnegative(features.tolist(), numbers.tolist()))
    for _ in range(500):
        intercept, *slopes = generator.random(3).tolist()
        assert error(LinearModel(intercept, tuple(slopes))) >= least


@pytest.fixture
def stream(tmp_path):
    generator = np.random.default_rng(1)
    pairs = [([5] * int(source), [7] * int(target)) for source, target in generator.integers(1, 23, size=(97, 2))]
    return pair_stream(TokenStore.build(tmp_path / "store", pairs), budget=BUDGET, seed=3)


def test_survey_covers_every_batch_of_a_small_epoch(stream):
    costs = survey_batches(stream)
    assert list(costs) == list(range(stream.batches_per_epoch()))
    assert max(cost.target_positions for cost in costs.values()) <= BUDGET
    assert sum(cost.target_tokens for cost in costs.values()) == sum(
        read_part(stream, BatchPart(index, 1)).target_count for index in costs
    )


def test_survey_of_a_large_epoch_is_evenly_spaced(stream, monkeypatch):
    monkeypatch.setattr("dragoman.profiling.time_and_memory_per_batch.MAX_SURVEYED", 5)
    chosen = list(survey_batches(stream))
    assert len(chosen) == 5
    assert (chosen[0], chosen[-1]) == (0, stream.batches_per_epoch() - 1)


def test_selected_batches_grow_and_start_with_the_largest(stream):
    costs = survey_batches(stream)
    steps = select_batches(costs, grad_accumulation=2, steps=29, seed=1)
    parts = [step[0].parts for step in steps]
    assert parts == sorted(parts, reverse=True)
    assert set(parts) == set(PARTS)
    assert {len(step) for step in steps} == {2}
    largest = max(cost.positions for cost in costs.values())
    first_whole = steps[parts.index(1)][0]
    assert costs[first_whole.batch].positions == largest
    spread = [costs[part.batch].positions for step in steps[-29:] for part in step]
    assert np.mean(spread) == pytest.approx(np.mean([cost.positions for cost in costs.values()]), rel=0.1)


def test_selected_batches_repeat_parts_of_the_stream(stream):
    whole = [read_part(stream, BatchPart(index, 1)) for index in (3, 1)]
    own = SelectedBatches(stream, [BatchPart(3, 1), BatchPart(1, 2)])
    first, second, again = next(own), next(own), next(own)
    assert first.rows.tolist() == again.rows.tolist() == whole[0].rows.tolist()
    assert second.rows.tolist() == whole[1].rows[::2].tolist()
    own.seek({"epoch": 0, "batch": 1})
    assert next(own).rows.tolist() == second.rows.tolist()
    assert own.position == {"epoch": 0, "batch": 2}
    assert own.batches_per_epoch() == 2
