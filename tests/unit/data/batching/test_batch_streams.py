"""Streams of batches: epochs, positions and seeking."""

import json
from functools import partial

import pytest

from dragoman.data.batching.batch_streams import BatchStream, Epoch, EpochStream
from dragoman.errors import DataError

SIZES = [3, 5, 2, 7]


def epoch_of(number: int) -> Epoch[tuple[int, int, int]]:
    """Return the number of batches in `SIZES`; each batch holds its epoch, number and plan."""
    plan = [10 * number + index for index in range(SIZES[number % len(SIZES)])]
    return [partial(tuple, [number, index, row]) for index, row in enumerate(plan)]


def batches_of(number: int) -> list[tuple[int, int, int]]:
    return [build() for build in epoch_of(number)]


def test_stream_crosses_epochs_of_different_length():
    stream = EpochStream(epoch_of)
    assert isinstance(stream, BatchStream)
    assert stream.batches_per_epoch() == 3
    taken = [next(stream) for _ in range(sum(SIZES))]
    assert taken == [batch for number in range(4) for batch in batches_of(number)]
    assert stream.position == {"epoch": 4, "batch": 0}


def test_stream_resumes_at_a_position():
    whole = [batch for number in range(5) for batch in batches_of(number)]
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
        EpochStream(lambda _: [])
