"""Tree positions compared with their definition."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.array_types import SourceFeatures
from dragoman.nn.positions.shaw import ShawPositions
from dragoman.nn.positions.sinusoidal import sinusoidal_positions
from dragoman.nn.positions.tree import (
    DepthEmbedding,
    TreeBias,
    ancestry,
    depths,
    token_depths,
    token_relations,
    tree_relations,
)
from tests.trees import Heads, depth, forests, path_to_root, relation

some_forests = st.lists(forests(most=11), min_size=1, max_size=3)


def padded(forests: list[Heads]) -> torch.Tensor:
    """Return the heads from word 0 on, padded at the end."""
    width = max(map(len, forests))
    return torch.tensor([[0, *heads, *[0] * (width - len(heads))] for heads in forests])


def sentence() -> torch.Tensor:
    """Bush(1) held(2) a(3) talk(4) with(5) Sharon(6): held is the root and the head of with."""
    return torch.tensor([[0, 2, 0, 4, 2, 2, 5]])


def test_depths_and_relations_by_hand():
    assert depths(sentence()).tolist() == [[0, 2, 1, 3, 2, 2, 3]]
    of_talk = tree_relations(sentence())[0, 4].tolist()
    # above all, Bush before it in another branch, held above it, a below it, itself, with and Sharon behind it
    assert of_talk == [-2, -4, -1, 1, 0, 4, 5]


@given(some_forests)
def test_depth_is_length_of_path_to_root(forests: list[Heads]) -> None:
    found = depths(padded(forests))
    for row, heads in enumerate(forests):
        assert found[row, : len(heads) + 1].tolist() == [depth(heads, word) for word in range(len(heads) + 1)]


@given(some_forests)
def test_ancestors_are_on_path_to_root(forests: list[Heads]) -> None:
    found = ancestry(padded(forests))
    for row, heads in enumerate(forests):
        for word in range(len(heads) + 1):
            assert found[row, word].nonzero()[:, 0].tolist() == sorted(path_to_root(heads, word))


@given(some_forests)
def test_relations_equal_definition(forests: list[Heads]) -> None:
    found = tree_relations(padded(forests))
    for row, heads in enumerate(forests):
        words = range(len(heads) + 1)
        expected = [[relation(heads, first, second) for second in words] for first in words]
        assert found[row, : len(words), : len(words)].tolist() == expected


@given(some_forests)
def test_relations_are_antisymmetric(forests: list[Heads]) -> None:
    found = tree_relations(padded(forests))
    assert torch.equal(found, -found.transpose(1, 2))


@given(st.integers(1, 40))
def test_chain_has_maximum_depth(words: int) -> None:
    """The deepest tree needs the most doublings."""
    assert depths(torch.arange(words + 1)[None].sub(1).clamp(min=0)).tolist() == [[*range(words + 1)]]


def test_tokens_share_the_position_of_their_word():
    structure = SourceFeatures(words=torch.tensor([[1, 1, 2, 0, 0]]), heads=torch.tensor([[0, 2, 0]]))
    assert token_depths(structure).tolist() == [[2, 2, 1, 0, 0]]
    assert token_relations(structure)[0].tolist() == [
        [0, 0, -1, -2, -2],
        [0, 0, -1, -2, -2],
        [1, 1, 0, -1, -1],
        [2, 2, 1, 0, 0],
        [2, 2, 1, 0, 0],
    ]


def test_depth_embedding_equals_equation():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        positions = DepthEmbedding(size=6, bias=True)
    places, found = sinusoidal_positions(torch.arange(3)[None], 6), torch.tensor([[2, 1, 0], [1, 1, 0]])
    joined = positions(places, found)
    for row in range(2):
        for place in range(3):
            both = torch.cat([places[0, place], sinusoidal_positions(found[row, place], 6)])
            expected = torch.tanh(positions.join.weight @ both + positions.join.bias)
            torch.testing.assert_close(joined[row, place], expected)


def with_vectors(positions, seed: int = 3):
    torch.nn.init.normal_(positions.key_embedding, generator=torch.Generator().manual_seed(seed))
    return positions


def queries(*, rows: int, places: int) -> torch.Tensor:
    return torch.randn(rows, 3, places, 5, generator=torch.Generator().manual_seed(2))


def test_tree_bias_equals_vectors_on_keys():
    positions = with_vectors(TreeBias(max_distance=2, head_size=5, scale=0.5))
    relations = torch.tensor([[[0, 7, -1], [2, 0, 1], [-2, -3, 0]], [[0, 0, 0], [0, 0, 5], [0, -5, 0]]])
    query = queries(rows=2, places=3)
    bias = positions.bias(query, relations, past_length=0)
    for row in range(2):
        for i in range(3):
            for j in range(3):
                vector = positions.key_embedding[max(-2, min(2, int(relations[row, i, j]))) + 2]
                torch.testing.assert_close(bias[row, :, i, j], 0.5 * query[row, :, i] @ vector)
    torch.testing.assert_close(positions.bias(query[:, :, 1:], relations, past_length=1), bias[:, :, 1:])


@pytest.mark.parametrize("reach", [2, 9])
def test_chain_relations_equal_distances(reach):
    """The head of each word is the previous word; word 0 is the first position."""
    chain = torch.arange(7)[None].sub(1).clamp(min=0)
    tree = with_vectors(TreeBias(max_distance=reach, head_size=5, scale=0.5))
    sequence = with_vectors(ShawPositions(max_distance=reach, head_size=5, scale=0.5, adds_values=False))
    query = queries(rows=1, places=7)
    torch.testing.assert_close(
        tree.bias(query, tree_relations(chain), past_length=0), sequence.bias(query, keys=7, past_length=0)
    )


def test_flat_tree_relations_are_sides():
    """Every word is a root, so that relations equal distances clipped to one."""
    flat = tree_relations(torch.zeros(1, 7, dtype=torch.long))[:, 1:, 1:]
    assert flat.unique().tolist() == [-2, 0, 2]
    tree = with_vectors(TreeBias(max_distance=4, head_size=5, scale=0.5))
    sequence = ShawPositions(max_distance=1, head_size=5, scale=0.5, adds_values=False)
    with torch.no_grad():
        sequence.key_embedding.copy_(tree.key_embedding[[2, 4, 6]])
    query = queries(rows=1, places=6)
    torch.testing.assert_close(tree.bias(query, flat, past_length=0), sequence.bias(query, keys=6, past_length=0))
