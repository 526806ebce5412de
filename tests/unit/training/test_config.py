"""What may be chosen about training, and what is refused."""

import pytest

from dragoman.config import parse
from dragoman.errors import ConfigError
from dragoman.training.config import Epochs, TrainingConfig, Updates


def test_a_span_without_a_kind_is_counted_in_epochs():
    config = parse(TrainingConfig, {"length": {"count": 3}, "interval": {"kind": "updates", "count": 5}})
    assert (config.length, config.interval) == (Epochs(count=3), Updates(count=5))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"validation_beam": 3, "translate": False}, "training.validation_beam = 3 has no effect"),
        ({"length": {"kind": "hours", "count": 1}}, "length.kind = 'hours'"),
        ({"length": {"count": 0}}, "length.count = 0"),
        ({"label_smoothing": 1.0}, "label_smoothing = 1.0"),
        ({"moving_average": 1.0}, "moving_average = 1.0"),
        ({"clip": 0}, "clip = 0"),
        ({"schedule": {"kind": "inverse_sqrt", "floor": 0.1}}, "schedule.floor: no such key"),
        ({"optimiser": {"kind": "adam", "weight_decay": 0.1}}, "It belongs to kind adamw"),
        ({"precision": "float16"}, "precision = 'float16'"),
    ],
)
def test_what_makes_no_sense_is_refused(tree, message):
    with pytest.raises(ConfigError) as raised:
        parse(TrainingConfig, tree)
    assert message in str(raised.value)
