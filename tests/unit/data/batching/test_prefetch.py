"""Prefetching: same batches, positions and errors as the stream behind it."""

import threading
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching.batch_streams import Epoch, EpochStream, PrefetchingStream
from dragoman.errors import DataError
from tests.property_settings import examples

SIZES = (3, 1, 5)


def stream(*, broken_at: tuple[int, int] | None = None) -> EpochStream[tuple[int, int]]:
    """Epochs of different length; a batch is its epoch and its number."""

    def epoch(number: int) -> Epoch[tuple[int, int]]:
        def make(index: int) -> tuple[int, int]:
            if (number, index) == broken_at:
                raise DataError("a broken batch")
            return number, index

        return [partial(make, index) for index in range(SIZES[number % len(SIZES)])]

    return EpochStream(epoch)


@examples(30)
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=23),
    st.sampled_from([0, 1, 2, 5]),
    st.sampled_from([None, 0, 1, 2]),
)
def test_prefetching_equals_the_stream(steps: list[int | None], count: int, epochs: int | None) -> None:
    """Requests are the next batch or the start of an epoch."""
    plain, ahead = stream(), PrefetchingStream(stream(), count=count, epochs=epochs)
    for step in steps:
        if step is None:
            assert next(ahead) == next(plain)
        else:
            for one in (plain, ahead):
                one.seek({"epoch": step, "batch": 0})
        assert ahead.position == plain.position
    plain.seek(plain.position)
    assert ahead.batches_per_epoch() == plain.batches_per_epoch()


def test_batches_are_built_in_the_background():
    made = threading.Event()

    def epoch(number: int) -> Epoch[int]:
        return [lambda index=index: made.set() or index if index == 2 else index for index in range(5)]

    ahead = PrefetchingStream(EpochStream(epoch), count=2)
    assert next(ahead) == 0
    assert made.wait(timeout=30)
    assert ahead.position == {"epoch": 0, "batch": 1}


def test_prefetching_stops_after_the_last_epoch():
    entered: list[int] = []

    def epoch(number: int) -> Epoch[int]:
        entered.append(number)
        return [partial(int, index) for index in range(3)]

    ahead = PrefetchingStream(EpochStream(epoch), count=4, epochs=2)
    assert [next(ahead) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    assert ahead.position == {"epoch": 2, "batch": 0}
    ahead.seek(ahead.position)  # waits for the thread
    assert entered == [0, 1, 2]  # the last by going there


def test_error_is_raised_with_its_batch():
    ahead = PrefetchingStream(stream(broken_at=(0, 2)), count=2)
    assert [next(ahead), next(ahead)] == [(0, 0), (0, 1)]
    with pytest.raises(DataError, match="a broken batch"):
        next(ahead)


def test_unknown_position_is_refused():
    with pytest.raises(DataError, match="none with index 3"):
        PrefetchingStream(stream()).seek({"epoch": 0, "batch": 3})
