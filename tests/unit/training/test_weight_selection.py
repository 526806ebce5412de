"""Selection of the final weights by validation."""

import math
import shutil

import pytest
import torch

from dragoman.models.weight_storage import get_weights
from dragoman.training.config import TrainingConfig
from dragoman.training.schedules import ConstantSchedule
from dragoman.training.trainer import InterruptionError, Validator, select_weights
from tests.tiny_training import BUDGET, build_run, train_small, validation_of

CONFIG = TrainingConfig(
    max_steps=9,
    validate_every=2,
    schedule=ConstantSchedule(),
    batch_tokens=BUDGET,
    keep_checkpoints=3,
    ema_decay=0.5,
)


@pytest.fixture
def run(tmp_path):
    """Return a run validated after steps 2, 4, 6, 8 and 9, best after 4; the last three are 6, 8 and 9."""
    run = build_run(tmp_path, CONFIG)
    train_small(run, CONFIG, judge=validation_of([1.0, 5.0, 2.0, 2.0, 2.0]))
    return run


def test_candidates_match_their_names(run):
    found = run.checkpoints.candidates(run.progress, run.ema)
    assert list(found) == ["last", "best", "average of the last 3", "moving average"]
    for name, update in (("last", 9), ("best", 4)):
        assert all(torch.equal(found[name][key], tensor) for key, tensor in run.checkpoints.weights(update).items())
    several = [run.checkpoints.weights(update) for update in (6, 8, 9)]
    for key, tensor in found["average of the last 3"].items():
        torch.testing.assert_close(tensor, sum(one[key] for one in several) / 3)
    assert found["moving average"] is not run.ema
    assert all(torch.equal(found["moving average"][key], tensor) for key, tensor in run.ema.items())


@pytest.mark.parametrize(
    ("qualities", "chosen"),
    [
        ([3.0, 1.0, 2.0, 0.0], "last"),
        ([3.0, 4.0, 2.0, 0.0], "best"),
        ([3.0, 1.0, 3.5, 3.5], "average of the last 3"),
        ([3.0, 1.0, 3.5, 3.6], "moving average"),
        ([math.nan, 1.0, math.nan, 0.5], "best"),
        ([2.0, 2.0, 2.0, 2.0], "last"),
    ],
)
def test_best_candidate_is_selected_and_loaded(run, qualities, chosen):
    expected = run.checkpoints.candidates(run.progress, run.ema)[chosen]
    weights, selection = select_weights(run, validation_of(qualities))
    assert selection.selected == chosen
    assert [scores["quality"] for scores in selection.candidates.values()] == pytest.approx(qualities, nan_ok=True)
    for name, tensor in get_weights(run.model).items():
        assert torch.equal(tensor, expected[name])
        assert torch.equal(weights[name], expected[name])
    assert not run.model.training


def test_best_checkpoint_may_be_the_last(tmp_path):
    config = CONFIG.model_copy(update={"keep_checkpoints": 1, "ema_decay": None})
    run = build_run(tmp_path, config)
    train_small(run, config, judge=validation_of([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert list(run.checkpoints.candidates(run.progress, run.ema)) == ["last"]


def test_deleted_checkpoint_is_no_candidate(run):
    for update in (4, 6):
        shutil.rmtree(run.checkpoints.folder / f"{update:09d}")
    assert list(run.checkpoints.candidates(run.progress, run.ema)) == [
        "last",
        "average of the last 2",
        "moving average",
    ]


def test_validation_of_a_candidate_is_interrupted_between_layers(run):
    layers, events = [], []
    layer = torch.nn.Linear(2, 3)
    layer.register_forward_hook(lambda *_: layers.append(layer))

    def validate(model):
        for _ in range(2):
            layer(torch.ones(2))
        raise AssertionError("the validation goes on")

    validator = Validator(validate, metric="quality", higher_is_better=True)
    with pytest.raises(InterruptionError, match="after step 9"):
        select_weights(run, validator, interrupted=lambda: bool(layers), callback=events.append)
    assert len(layers) == 1
    assert [(event.name, event.number, event.count) for event in events] == [("last", 1, 4)]


def test_selection_can_be_interrupted(run):
    with pytest.raises(InterruptionError, match="after step 9"):
        select_weights(run, validation_of([1.0]), interrupted=lambda: True)
