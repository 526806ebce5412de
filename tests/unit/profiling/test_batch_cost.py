"""What batches weigh, and lines that are drawn through measurements."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching.packing import TextBatch
from dragoman.data.batching.token_batches import Batch
from dragoman.profiling.batch_cost import Line, Load, fitted, load_of, mean_load

COEFFICIENTS = st.floats(0.0, 7.0)
TABLES = st.lists(st.tuples(st.floats(0.0, 11.0), st.floats(0.0, 13.0)), min_size=1, max_size=17)


def test_a_batch_of_pairs_weighs_its_places_and_its_tokens():
    batch = Batch(
        source=torch.zeros(3, 7, dtype=torch.long),
        source_lengths=torch.tensor([7, 2, 1]),
        target=torch.zeros(3, 5, dtype=torch.long),
        labels=torch.zeros(3, 5, dtype=torch.long),
        target_lengths=torch.tensor([5, 4, 2]),
        rows=np.arange(3),
    )
    assert load_of(batch) == Load(21, 15, 3 * (49 + 25), read=10, written=11, predictions=11)


def test_a_batch_of_texts_weighs_what_one_network_reads():
    batch = TextBatch(
        tokens=torch.zeros(2, 5, dtype=torch.long),
        labels=torch.zeros(2, 5, dtype=torch.long),
        loss_mask=torch.tensor([[True] * 3 + [False] * 2, [True] * 5]),
        document_ids=torch.tensor([[0, 0, 0, -1, -1], [0, 0, 0, 0, 0]]),
        rows=np.arange(2),
    )
    assert load_of(batch) == Load(10, 0, 50, read=8, written=8, predictions=8)


def test_loads_are_added_and_divided():
    one, other = Load(2, 3, 5, 7, 11, 13), Load(4, 5, 7, 9, 13, 15)
    assert mean_load([one, other]) == Load(3, 4, 6, 8, 12, 14)
    assert one.places == 5
    assert one.features == (2, 3, 5)


@given(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, TABLES)
def test_a_line_goes_through_what_lies_on_one(constant, first, second, causes):
    true = Line(constant, (first, second))
    found = fitted(causes, [true.at(cause) for cause in causes])
    assert [found.at(cause) for cause in causes] == pytest.approx([true.at(cause) for cause in causes], abs=1e-4)


def test_what_is_next_to_nothing_is_no_cause():
    assert fitted([(0.0, 0.0), (0.0, 2e-311)], [0.0, 1.0]).slopes == (0.0, 0.0)


@given(TABLES, st.data())
def test_no_cause_makes_it_less(causes, data):
    numbers = data.draw(st.lists(st.floats(0.0, 17.0), min_size=len(causes), max_size=len(causes)))
    found = fitted(causes, numbers)
    assert found.constant >= 0
    assert min(found.slopes) >= 0


def test_no_other_line_without_negative_coefficients_is_closer():
    generator = np.random.default_rng(1)
    causes, numbers = generator.random((19, 2)), generator.random(19)

    def fault(line: Line) -> float:
        return float(sum((line.at(cause) - number) ** 2 for cause, number in zip(causes, numbers, strict=True)))

    least = fault(fitted(causes.tolist(), numbers.tolist()))
    for _ in range(500):
        constant, *slopes = generator.random(3).tolist()
        assert fault(Line(constant, tuple(slopes))) >= least
