"""Attention masks compared with their definition, pair by pair."""

import pytest
import torch

from dragoman.nn.masks import causal_mask, distances, document_mask, left_padding_mask, padding_mask


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (1, 7), (3, 7), (5, 2)])
def test_causal_mask_hides_future(queries, keys):
    past = keys - queries
    expected = [[key <= past + query for key in range(keys)] for query in range(queries)]
    mask = causal_mask(queries, keys)
    assert mask.dtype == torch.bool
    assert mask.shape == (1, 1, queries, keys)
    assert mask[0, 0].tolist() == expected


def test_padding_mask_hides_padding():
    mask = padding_mask(torch.tensor([0, 1, 3, 5]), 5)
    assert mask.shape == (4, 1, 1, 5)
    assert mask[:, 0, 0].int().tolist() == [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]


def test_left_padding_mask_hides_padding():
    mask = left_padding_mask(torch.tensor([0, 1, 3, 5]), 5)
    assert mask.shape == (4, 1, 1, 5)
    assert mask[:, 0, 0].int().tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]


def test_masks_combine_by_and():
    both = causal_mask(3, 3) & padding_mask(torch.tensor([2, 3]), 3)
    assert both.shape == (2, 1, 3, 3)
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert both[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_distances_start_at_query_position():
    assert distances(2, 5, past_length=3).tolist() == [[-3, -2, -1, 0, 1], [-4, -3, -2, -1, 0]]
    assert distances(2, 2, past_length=0).tolist() == [[0, 1], [-1, 0]]


@pytest.mark.parametrize("before", [0, 1, 5])
def test_causal_mask_starts_at_query_position(before):
    expected = [[key <= before + query for key in range(7)] for query in range(3)]
    assert causal_mask(3, 7, past_length=before)[0, 0].tolist() == expected


def test_document_mask_separates_documents():
    mask = document_mask(torch.tensor([[4, 4, 7], [1, 2, 1]]))
    assert mask.shape == (2, 1, 3, 3)
    assert mask[0, 0].int().tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert mask[1, 0].int().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
