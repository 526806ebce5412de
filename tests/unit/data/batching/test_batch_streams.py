"""Streams of batches: epochs, positions and seeking."""

import json

import numpy as np
import pytest

from dragoman.data.batching.batch_streams import BatchStream, Epoch, EpochStream
from dragoman.errors import DataError

SIZES = [3, 5, 2, 7]


def epoch_of(number: int) -> Epoch[tuple[int, int, int]]:
    """Return the number of batches in `SIZES`; each batch holds its epoch, number and plan."""
    plan = [np.array([10 * number + index]) for index in range(SIZES[number % len(SIZES)])]
    return Epoch(plan, lambda index, rows: (number, index, int(rows[0])))


def test_epoch_builds_batches_on_demand():
    epoch = epoch_of(1)
    assert len(epoch) == 5
    assert epoch[3] == (1, 3, 13)
    assert list(epoch) == [(1, index, 10 + index) for index in range(5)]


def test_stream_crosses_epochs_of_different_length():
    stream = EpochStream(epoch_of)
    assert isinstance(stream, BatchStream)
    assert stream.batches_per_epoch() == 3
    taken = [next(stream) for _ in range(sum(SIZES))]
    assert taken == [batch for number in range(4) for batch in epoch_of(number)]
    assert stream.position == {"epoch": 4, "batch": 0}


def test_stream_resumes_at_a_position():
    whole = [batch for number in range(5) for batch in epoch_of(number)]
    for count in range(sum(SIZES)):
        stream, other = EpochStream(epoch_of), EpochStream(epoch_of)
        for _ in range(count):
            next(stream)
        next(other)
        other.seek(json.loads(json.dumps(stream.position)))
        assert other.position == stream.position
        assert [next(other), next(other)] == whole[count : count + 2]


def test_unknown_position_is_refused():
    stream = EpochStream(epoch_of)
    with pytest.raises(DataError, match="the stream has 5 batches in epoch 1, none with index 5: the data, the"):
        stream.seek({"epoch": 1, "batch": 5})


def test_epoch_is_planned_once():
    asked = []

    def counted(number: int) -> Epoch:
        asked.append(number)
        return epoch_of(number)

    stream = EpochStream(counted)
    for _ in range(7):
        next(stream)
    stream.seek({"epoch": 1, "batch": 2})
    assert asked == [0, 1]


def test_empty_epoch_is_refused():
    with pytest.raises(DataError, match="no example to make batches of"):
        EpochStream(lambda _: Epoch([], lambda index, rows: None))
