"""What a training will take, from what was measured."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.profiling.batch_cost import Line, Load
from dragoman.profiling.plan import (
    ROUND,
    Need,
    budget_that_fits,
    candidates,
    memory_of,
    need_of,
    plan_of,
    time_of,
    validations,
)
from dragoman.profiling.profile import Held, Level, Measured
from dragoman.runs import batch_tokens as token_budget
from dragoman.runs.config import parse_experiment
from dragoman.training.config import TrainingConfig

MIB = 2**20
CONFIG = TrainingConfig(batch_tokens=1024, max_epochs=7)
MEASURED = Measured(
    workers=2,
    parameters=5 * MIB,
    held=Held(20 * MIB, 20 * MIB, 40 * MIB, 0),
    program=100 * MIB,
    data=10 * MIB,
    levels=[Level(256 * share, share / 8, (200 + 40 * share) * MIB) for share in (1, 2, 4, 8)],
    growth=0.0,
    peak=530 * MIB,
    others=[500 * MIB],
    load=Load(900, 1000, 50_000, 800, 900, 900),
    timed=[([100.0 * n, 90.0 * n, 5000.0 * n], 0.1 + 0.02 * n) for n in range(1, 12)],
    seen=35,
    updates=700,
    updates_per_epoch=100,
    flops=1e9,
    operations=1e11,
    seconds={
        "start": 2.0, "gather": 1.0, "team": 3.0, "build": 0.5, "waiting": 0.25, "checkpoint": 0.125,
        "epoch": 0.5, "validation": 4.0, "choice": 8.0, "specimen": 1.0,
    },
    scores={"valid": 8.0, "test": 16.0},
    sizes="some pairs",
)  # fmt: skip


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ({"validate_every_epochs": 1}, 7),
        ({"validate_every_epochs": 2}, 4),
        ({"validate_every_epochs": 9}, 1),
        ({"validate_every": 100}, 7),
        ({"validate_every": 300}, 3),
        ({"validate_every": 1000}, 1),
    ],
)
def test_validations_stand_at_every_interval_and_at_the_end(interval, expected):
    config = TrainingConfig(max_epochs=7, **interval)
    assert validations(700, 100, config) == expected


def test_weights_are_chosen_among_the_last_the_best_a_mean_and_a_moving_average():
    averaged = TrainingConfig(ema_decay=0.9)
    assert [candidates(count, TrainingConfig()) for count in (1, 2, 10)] == [1, 2, 3]
    assert [candidates(count, averaged) for count in (1, 2, 10)] == [2, 3, 4]
    assert candidates(10, TrainingConfig(keep_checkpoints=1)) == 2


def test_the_time_is_that_of_all_that_is_done():
    time = time_of(MEASURED, CONFIG, update=0.25)
    assert time.start == 2 + 1 + 3 + 0.5 + 0.25 + 0.125 + 6 * 0.5
    assert time.updates == 175
    assert time.validations == 28
    assert time.checkpoints == 7 * 0.125
    assert time.choice == 24
    assert time.scores == 25
    assert time.total == sum(getattr(time, field.name) for field in fields(time))


def test_the_parts_of_memory_are_those_of_every_worker_and_add_up():
    memory = memory_of(MEASURED, CONFIG)
    assert memory.weights == memory.gradients == 40 * MIB
    assert memory.optimiser == 80 * MIB
    assert memory.total == 1030 * MIB
    assert sum(getattr(memory, field.name) for field in fields(memory)) == 2 * memory.total


def test_memory_that_is_let_go_of_in_pieces_grows_with_the_updates():
    growing = replace(MEASURED, growth=10.0 * MIB)
    assert memory_of(growing, CONFIG).total == 1030 * MIB + 2 * round(10 * MIB * math.log(20))
    assert need_of(growing, CONFIG).at(1024) == need_of(MEASURED, CONFIG).at(1024) + 2 * round(10 * MIB * math.log(20))
    assert memory_of(replace(growing, updates=7), CONFIG).total == 1030 * MIB


def test_devices_that_share_a_batch_need_less_each_and_bear_more_together():
    alone, shared = (memory_of(MEASURED, CONFIG, devices=devices) for devices in (1, 4))
    assert shared.activations < alone.activations
    assert (shared.weights, shared.data, shared.program) == (alone.weights, alone.data, alone.program)
    assert shared.total >= round(need_of(MEASURED, CONFIG).at(CONFIG.token_budget // 4))
    one, four = (budget_that_fits(MEASURED, CONFIG, available=2**31, devices=devices) for devices in (1, 4))
    assert one < four <= 4 * one
    assert plan_of(MEASURED, CONFIG, available=2**34, devices=4).memory == shared


def test_the_weights_of_many_checkpoints_may_be_the_most_in_the_end():
    config = CONFIG.model_copy(update={"keep_checkpoints": 40, "max_epochs": 50})
    assert memory_of(replace(MEASURED, updates=5000), config).total > 1030 * MIB


def test_devices_share_the_batches_but_not_what_an_update_costs_however_small():
    alone = plan_of(MEASURED, CONFIG, available=2**34, price=3.6)
    shared = plan_of(MEASURED, CONFIG, available=2**34, devices=4, price=3.6)
    assert alone.time.updates == pytest.approx(700 * (0.1 + 0.02 * 9.5), rel=0.1)
    assert alone.time.updates / 4 < shared.time.updates < alone.time.updates
    assert shared.cost == pytest.approx(4 * 3.6 * shared.time.total / 3600)
    assert shared.flops == alone.flops == 7e11
    assert alone.utilisation > shared.utilisation > 0
    assert alone.tokens == 700 * 900


@given(
    st.floats(0, 1e9),
    st.floats(1, 1e6),
    st.integers(0, 10**9),
    st.integers(1, 8),
    st.integers(0, 10**11),
    st.integers(0, 10**11),
)
def test_the_budget_grows_with_memory_and_fits(constant, slope, judging, workers, one, other):
    need = Need(Line(constant, (slope,)), judging, (workers - 1) * 10**9, workers, seen=4096)
    less, more = (need.most(available, useful=10**7) for available in sorted((one, other)))
    assert less <= more <= 10**7
    if more:
        assert need.at(more) <= max(one, other)
    if more + ROUND <= 10**7:
        assert need.at(more + ROUND) > max(one, other)


def test_what_is_needed_is_read_off_the_shares():
    need = need_of(MEASURED, CONFIG)
    assert need.at(1024) == pytest.approx((520 + 10 + 500) * MIB)
    assert need.at(4096) == pytest.approx((200 + 320 * 4 + 500 + 320 * 3) * MIB)
    fitting = budget_that_fits(MEASURED, CONFIG, available=4 * 2**30)
    assert 4096 < fitting < 8192
    assert need.at(fitting) <= 0.9 * 4 * 2**30


def test_a_plan_says_whether_it_fits():
    assert plan_of(MEASURED, CONFIG, available=2**34).fits
    assert not plan_of(MEASURED, CONFIG, available=1000 * MIB).fits
    with pytest.raises(ConfigError, match="a memory of 300 MiB is too small for any batch"):
        plan_of(MEASURED, CONFIG, available=300 * MIB)


def test_nobody_can_use_a_batch_that_is_larger_than_the_corpus():
    assert budget_that_fits(MEASURED, CONFIG, available=2**50) == math.ceil(1000 * 100 / ROUND) * ROUND
    small = replace(MEASURED, updates_per_epoch=1)
    assert budget_that_fits(small, CONFIG, available=2**50) == 1024


def test_epochs_that_do_not_divide_into_updates_are_counted_as_they_are():
    """Seven batches an epoch, four an update: thirty epochs are 53 updates, the last of them of two batches."""
    config = CONFIG.model_copy(update={"max_epochs": 30, "validate_every_epochs": 1, "grad_accumulation": 4})
    found = replace(MEASURED, updates=53, updates_per_epoch=7 / 4)
    assert validations(53, 7 / 4, config) == 30
    assert time_of(found, config, update=0.0).start == time_of(MEASURED, CONFIG, update=0.0).start + 0.5 * (30 - 7)
    by_updates = config.model_copy(update={"max_steps": 53, "max_epochs": None})
    assert validations(53, 7 / 4, by_updates) == 31  # the last epoch is begun and not ended


def test_an_example_that_no_device_holds_is_refused_however_many_share_a_batch(monkeypatch):
    corpus = {"kind": "files", "source": "train.en", "target": "train.de"}
    experiment = parse_experiment({"data": {"train": corpus, "max_source_length": 2000, "max_target_length": 2000}})
    monkeypatch.setattr(token_budget, "measure", lambda *_, **__: MEASURED)
    monkeypatch.setattr(token_budget, "budget_that_fits", lambda *_, devices, **__: 1024 * devices)
    asked = {"device": torch.device("cpu"), "tell": lambda _: None, "available": 2**30}
    with pytest.raises(ConfigError, match=r"1,024 tokens fit into .*, and an example may have 2,001"):
        token_budget.resolve_batch_tokens(experiment, devices=4, **asked)
