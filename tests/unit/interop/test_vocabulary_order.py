"""Order of imported vocabularies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError
from dragoman.interop.vocabulary_order import ADDED, NEVER, VocabularyOrder

Symbols = tuple[int, int | None, int | None, int | None, int | None]


def orders() -> st.SearchStrategy[Symbols]:
    """Sizes and symbols of small vocabularies, whose special symbols may be missing or play several roles.

    The tests build the orders: the type checks of tests draw random numbers, which a strategy must not.
    """

    def symbols(size: int) -> st.SearchStrategy[Symbols]:
        role = st.none() | st.integers(0, size - 1)
        return st.tuples(st.just(size), role, role, role, role)

    return st.integers(1, 13).flatmap(symbols)


def test_special_symbols_move_to_the_front() -> None:
    order = VocabularyOrder(7, pad=6, unk=1, bos=5, eos=0)
    assert order.foreign_ids.tolist() == [6, 1, 5, 0, 2, 3, 4]
    assert order.our_ids.tolist() == [3, 1, 4, 5, 6, 2, 0]
    assert not order.needs_output_bias


def test_mask_symbol_moves_behind_all_others() -> None:
    assert VocabularyOrder(6, pad=0, unk=1, bos=2, eos=3, mask=4).foreign_ids.tolist() == [0, 1, 2, 3, 5, 4]


def test_end_symbol_that_also_begins_is_copied_and_counted_once() -> None:
    order = VocabularyOrder(5, unk=0, bos=4, eos=4)
    assert order.foreign_ids.tolist() == [ADDED, 0, 4, 4, 1, 2, 3]
    assert order.silent_ids == {0, 2}
    assert order.our_ids[4] == 3


@given(orders())
def test_foreign_order_is_restored(symbols: Symbols) -> None:
    order = VocabularyOrder(*symbols)
    table = np.arange(1, order.size * 3 + 1, dtype=np.float32).reshape(order.size, 3)
    bias = np.arange(1, order.size + 1, dtype=np.float32)
    ours = order.reorder(table)
    assert len(ours) == len(order)
    assert np.array_equal(order.restore(ours), table)
    assert np.array_equal(order.restore(order.reorder(bias, is_output_bias=True), is_output_bias=True), bias)
    assert VocabularyOrder.from_json(order.to_json()) == order


@given(orders())
def test_probabilities_of_the_foreign_symbols_are_unchanged(symbols: Symbols) -> None:
    order = VocabularyOrder(*symbols)
    generator = np.random.default_rng(order.size)
    bias = generator.normal(size=order.size).astype(np.float32)
    table = generator.normal(size=(order.size, 5)).astype(np.float32)
    hidden = generator.normal(size=5).astype(np.float32)
    ours = np.exp(order.reorder(table) @ hidden + order.reorder(bias, is_output_bias=True))
    theirs = np.exp(table @ hidden + bias)
    np.testing.assert_allclose((ours / ours.sum())[order.our_ids], theirs / theirs.sum(), rtol=1e-4)
    assert not ours[sorted(order.silent_ids)].any()
    assert NEVER < -1000


def test_copies_that_a_training_changed_are_refused() -> None:
    order = VocabularyOrder(5, pad=0, unk=1, bos=2, eos=2)
    table = order.reorder(np.ones((5, 2), dtype=np.float32))
    table[2] += 1
    with pytest.raises(ConfigError, match="bos and eos have different embeddings"):
        order.restore(table)


@pytest.mark.parametrize("options", [{"size": 0}, {"size": 10**9}, {"size": 5, "eos": 5}, {"size": 5, "pad": -1}])
def test_ids_outside_of_the_vocabulary_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(DataError, match="Check the configuration"):
        VocabularyOrder(**options)
