"""Key-value cache: operations treat keys and values alike and return new caches."""

import torch

from dragoman.nn.kv_cache import KVCache


def kept(rows, positions):
    """Row r and position p hold 10 r + p as key, and its negative as value."""
    numbers = 10.0 * torch.arange(rows)[:, None] + torch.arange(positions)
    keys = numbers[:, None, :, None].expand(rows, 2, positions, 3)
    return KVCache(keys, -keys)


def numbers(cache):
    assert torch.equal(cache.values, -cache.keys)
    assert (cache.keys == cache.keys[:, :1, :, :1]).all()
    return cache.keys[:, 0, :, 0].tolist()


def test_append_adds_positions_at_end():
    first, new = kept(2, 2), kept(2, 1)
    assert numbers(first.append(new)) == [[0, 1, 0], [10, 11, 10]]
    assert numbers(first) == [[0, 1], [10, 11]]
    assert first.append(new).length == 3


def test_append_to_empty_cache():
    assert numbers(kept(2, 0).append(kept(2, 1))) == [[0], [10]]


def test_select_reorders_and_repeats_rows():
    assert numbers(kept(3, 2).select(torch.tensor([2, 0, 2, 2]))) == [[20, 21], [0, 1], [20, 21], [20, 21]]
    assert numbers(kept(3, 2).select(torch.tensor([], dtype=torch.long))) == []


def test_pad_before_and_after():
    assert numbers(kept(1, 2).pad(before=2)) == [[0, 0, 0, 1]]
    assert numbers(kept(2, 1).pad(after=2)) == [[0, 0, 0], [10, 0, 0]]
    assert numbers(kept(2, 2).pad()) == [[0, 1], [10, 11]]


def test_concat_stacks_rows():
    assert numbers(kept(1, 2).concat(kept(2, 2))) == [[0, 1], [0, 1], [10, 11]]


def test_shift_moves_each_row():
    assert numbers(kept(3, 3).shift(torch.tensor([0, 1, 2]))) == [[0, 1, 2], [12, 10, 11], [21, 22, 20]]
    assert numbers(kept(2, 0).shift(torch.tensor([0, 0]))) == [[], []]
