"""Which weights a training ends with."""

import math
import shutil

import pytest
import torch

from dragoman.models.weights import get_weights
from dragoman.training.config import TrainingConfig
from dragoman.training.schedules import ConstantSchedule
from dragoman.training.trainer import InterruptionError, select_weights
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
    """Validated after 2, 4, 6, 8 and 9 updates, and best after 4; the last three are 6, 8 and 9."""
    run = build_run(tmp_path, CONFIG)
    train_small(run, CONFIG, judge=validation_of([1.0, 5.0, 2.0, 2.0, 2.0]))
    return run


def test_the_candidates_are_what_their_names_say(run):
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
def test_the_best_by_validation_is_chosen_and_the_model_left_with_it(run, qualities, chosen):
    expected = run.checkpoints.candidates(run.progress, run.ema)[chosen]
    weights, selection = select_weights(run, validation_of(qualities))
    assert selection.selected == chosen
    assert [scores["quality"] for scores in selection.candidates.values()] == pytest.approx(qualities, nan_ok=True)
    for name, tensor in get_weights(run.model).items():
        assert torch.equal(tensor, expected[name])
        assert torch.equal(weights[name], expected[name])
    assert not run.model.training


def test_the_best_is_no_candidate_of_its_own_where_it_is_the_last(tmp_path):
    config = CONFIG.model_copy(update={"keep_checkpoints": 1, "ema_decay": None})
    run = build_run(tmp_path, config)
    train_small(run, config, judge=validation_of([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert list(run.checkpoints.candidates(run.progress, run.ema)) == ["last"]


def test_a_checkpoint_that_was_deleted_is_left_out(run):
    for update in (4, 6):
        shutil.rmtree(run.checkpoints.folder / f"{update:09d}")
    assert list(run.checkpoints.candidates(run.progress, run.ema)) == [
        "last",
        "average of the last 2",
        "moving average",
    ]


def test_choosing_can_be_interrupted(run):
    with pytest.raises(InterruptionError, match="after step 9"):
        select_weights(run, validation_of([1.0]), interrupted=lambda: True)
