"""Batches of similar length."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference.length_batches import batch_by_length


@given(st.lists(st.integers(1, 40)), st.integers(1, 97))
def test_each_row_is_in_one_batch_within_the_budget(lengths, budget):
    batches = batch_by_length(lengths, batch_tokens=budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget


@given(st.lists(st.integers(1, 40)))
def test_longest_rows_come_first_and_ties_keep_order(lengths):
    rows = [row for batch in batch_by_length(lengths, batch_tokens=53) for row in batch]
    assert [(lengths[row], -row) for row in rows] == sorted(((n, -row) for row, n in enumerate(lengths)), reverse=True)
