"""Who may look at whom, spelt out pair by pair."""

import pytest
import torch

from dragoman.nn.masks import causal, latest, within


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (1, 7), (3, 7), (5, 2)])
def test_no_query_looks_ahead(queries, keys):
    past = keys - queries
    expected = [[key <= past + query for key in range(keys)] for query in range(queries)]
    mask = causal(queries, keys)
    assert mask.dtype == torch.bool
    assert mask.shape == (1, 1, queries, keys)
    assert mask[0, 0].tolist() == expected


def test_the_padding_after_each_row_is_hidden():
    mask = within(torch.tensor([0, 1, 3, 5]), 5)
    assert mask.shape == (4, 1, 1, 5)
    assert mask[:, 0, 0].int().tolist() == [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]


def test_the_padding_before_each_row_is_hidden():
    mask = latest(torch.tensor([0, 1, 3, 5]), 5)
    assert mask.shape == (4, 1, 1, 5)
    assert mask[:, 0, 0].int().tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]


def test_masks_join_by_and():
    both = causal(3, 3) & within(torch.tensor([2, 3]), 3)
    assert both.shape == (2, 1, 3, 3)
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert both[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
