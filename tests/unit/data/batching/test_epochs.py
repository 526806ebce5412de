"""The stream of any batches: epoch after epoch, and back to any place."""

import json

import numpy as np
import pytest

from dragoman.data.batching.epochs import BatchStream, Epoch, EpochStream
from dragoman.errors import DataError

SIZES = [3, 5, 2, 7]


def epoch_of(number: int) -> Epoch[tuple[int, int, int]]:
    """As many batches as `SIZES` says, each of which tells its epoch, its number and its plan."""
    plan = [np.array([10 * number + index]) for index in range(SIZES[number % len(SIZES)])]
    return Epoch(plan, lambda index, rows: (number, index, int(rows[0])))


def test_an_epoch_makes_its_batches_when_they_are_asked_for():
    epoch = epoch_of(1)
    assert len(epoch) == 5
    assert epoch[3] == (1, 3, 13)
    assert list(epoch) == [(1, index, 10 + index) for index in range(5)]


def test_epochs_follow_each_other_and_may_differ_in_length():
    stream = EpochStream(epoch_of)
    assert isinstance(stream, BatchStream)
    assert stream.batches_per_epoch() == 3
    taken = [next(stream) for _ in range(sum(SIZES))]
    assert taken == [batch for number in range(4) for batch in epoch_of(number)]
    assert stream.position == {"epoch": 4, "batch": 0}


def test_a_stream_goes_on_where_another_stood():
    whole = [batch for number in range(5) for batch in epoch_of(number)]
    for count in range(sum(SIZES)):
        stream, other = EpochStream(epoch_of), EpochStream(epoch_of)
        for _ in range(count):
            next(stream)
        next(other)
        other.seek(json.loads(json.dumps(stream.position)))
        assert other.position == stream.position
        assert [next(other), next(other)] == whole[count : count + 2]


def test_a_position_that_is_not_there_is_refused():
    stream = EpochStream(epoch_of)
    with pytest.raises(DataError, match="the stream has 5 batches in epoch 1, none with index 5: the data, the"):
        stream.seek({"epoch": 1, "batch": 5})


def test_an_epoch_is_planned_once():
    asked = []

    def counted(number: int) -> Epoch:
        asked.append(number)
        return epoch_of(number)

    stream = EpochStream(counted)
    for _ in range(7):
        next(stream)
    stream.seek({"epoch": 1, "batch": 2})
    assert asked == [0, 1]


def test_an_epoch_without_batches_is_refused():
    with pytest.raises(DataError, match="no example to make batches of"):
        EpochStream(lambda _: Epoch([], lambda index, rows: None))
