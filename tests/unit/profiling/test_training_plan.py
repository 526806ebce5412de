"""Plans of trainings computed from a profile."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.profiling.time_and_memory_per_batch import BatchCost, LinearModel
from dragoman.profiling.training_plan import (
    TOKEN_MULTIPLE,
    MemoryModel,
    build_plan,
    count_candidates,
    count_validations,
    fit_memory,
    max_batch_tokens,
    plan_memory,
    plan_time,
)
from dragoman.profiling.training_profile import MemoryLevel, Profile, TensorBytes
from dragoman.runs import auto_config
from dragoman.runs.config import parse_experiment
from dragoman.training.config import TrainingConfig

MIB = 2**20
CONFIG = TrainingConfig(batch_tokens=1024, max_epochs=7)
PROFILE = Profile(
    num_workers=2,
    parameters=5 * MIB,
    tensors=TensorBytes(20 * MIB, 20 * MIB, 40 * MIB, 0),
    program_bytes=100 * MIB,
    data_bytes=10 * MIB,
    memory_levels=[MemoryLevel(256 * share, share / 8, (200 + 40 * share) * MIB) for share in (1, 2, 4, 8)],
    memory_growth=0.0,
    peak_bytes=530 * MIB,
    worker_peaks=[500 * MIB],
    step_cost=BatchCost(900, 1000, 50_000, 800, 900, 900),
    timed_steps=[([100.0 * n, 90.0 * n, 5000.0 * n], 0.1 + 0.02 * n) for n in range(1, 12)],
    whole_steps=35,
    steps=700,
    steps_per_epoch=100,
    step_flops=1e9,
    peak_flops=1e11,
    seconds={
        "start": 2.0, "data": 1.0, "workers": 3.0, "setup": 0.5, "broadcast": 0.25, "checkpoint": 0.125,
        "epoch": 0.5, "validation": 4.0, "selection": 8.0, "sample": 1.0,
    },
    score_seconds={"valid": 8.0, "test": 16.0},
    data_summary="some pairs",
    data_notes=("a few pairs",),
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
def test_count_validations(interval, expected):
    config = TrainingConfig(max_epochs=7, **interval)
    assert count_validations(700, 100, config) == expected


def test_count_candidates():
    averaged = TrainingConfig(ema_decay=0.9)
    assert [count_candidates(count, TrainingConfig()) for count in (1, 2, 10)] == [1, 2, 3]
    assert [count_candidates(count, averaged) for count in (1, 2, 10)] == [2, 3, 4]
    assert count_candidates(10, TrainingConfig(keep_checkpoints=1)) == 2


def test_time_is_the_sum_of_its_parts():
    time = plan_time(PROFILE, CONFIG, step_seconds=0.25)
    assert time.start == 2 + 1 + 3 + 0.5 + 0.25 + 0.125 + 6 * 0.5
    assert time.steps == 175
    assert time.validations == 28
    assert time.checkpoints == 7 * 0.125
    assert time.selection == 24
    assert time.scores == 25
    assert time.total == sum(getattr(time, field.name) for field in fields(time))


def test_memory_parts_of_all_workers_add_up():
    memory = plan_memory(PROFILE, CONFIG)
    assert memory.weights == memory.gradients == 40 * MIB
    assert memory.optimizer == 80 * MIB
    assert memory.total == 1030 * MIB
    assert sum(getattr(memory, field.name) for field in fields(memory)) == 2 * memory.total


def test_fragmented_memory_grows_with_the_steps():
    growing = replace(PROFILE, memory_growth=10.0 * MIB)
    assert plan_memory(growing, CONFIG).total == 1030 * MIB + 2 * round(10 * MIB * math.log(20))
    assert fit_memory(growing, CONFIG).predict(1024) == fit_memory(PROFILE, CONFIG).predict(1024) + 2 * round(
        10 * MIB * math.log(20)
    )
    assert plan_memory(replace(growing, steps=7), CONFIG).total == 1030 * MIB


def test_devices_share_the_memory_of_a_batch():
    alone, shared = (plan_memory(PROFILE, CONFIG, devices=devices) for devices in (1, 4))
    assert shared.activations < alone.activations
    assert (shared.weights, shared.data, shared.program) == (alone.weights, alone.data, alone.program)
    assert shared.total >= round(fit_memory(PROFILE, CONFIG).predict(CONFIG.token_budget // 4))
    one, four = (max_batch_tokens(PROFILE, CONFIG, available=2**31, devices=devices) for devices in (1, 4))
    assert one < four <= 4 * one
    assert build_plan(PROFILE, CONFIG, available=2**34, devices=4).memory == shared


def test_selection_among_many_checkpoints_may_be_the_peak():
    config = CONFIG.model_copy(update={"keep_checkpoints": 40, "max_epochs": 50})
    assert plan_memory(replace(PROFILE, steps=5000), config).total > 1030 * MIB


def test_devices_share_batches_but_not_fixed_step_costs():
    alone = build_plan(PROFILE, CONFIG, available=2**34, price=3.6)
    shared = build_plan(PROFILE, CONFIG, available=2**34, devices=4, price=3.6)
    assert alone.time.steps == pytest.approx(700 * (0.1 + 0.02 * 9.5), rel=0.1)
    assert alone.time.steps / 4 < shared.time.steps < alone.time.steps
    assert shared.cost == pytest.approx(4 * 3.6 * shared.time.total / 3600)
    assert shared.flops == alone.flops == 7e11
    assert alone.utilization > shared.utilization > 0
    assert alone.tokens == 700 * 900


@given(
    st.floats(0, 1e9),
    st.floats(1, 1e6),
    st.integers(0, 10**9),
    st.integers(1, 8),
    st.integers(0, 10**11),
    st.integers(0, 10**11),
)
def test_max_tokens_grow_with_memory_and_fit(intercept, slope, validation, workers, one, other):
    memory = MemoryModel(
        LinearModel(intercept, (slope,)), validation, (workers - 1) * 10**9, workers, profiled_tokens=4096
    )
    less, more = (memory.max_tokens(available, limit=10**7) for available in sorted((one, other)))
    assert less <= more <= 10**7
    if more:
        assert memory.predict(more) <= max(one, other)
    if more + TOKEN_MULTIPLE <= 10**7:
        assert memory.predict(more + TOKEN_MULTIPLE) > max(one, other)


def test_memory_is_fitted_to_the_levels():
    memory = fit_memory(PROFILE, CONFIG)
    assert memory.predict(1024) == pytest.approx((520 + 10 + 500) * MIB)
    assert memory.predict(4096) == pytest.approx((200 + 320 * 4 + 500 + 320 * 3) * MIB)
    fitting = max_batch_tokens(PROFILE, CONFIG, available=4 * 2**30)
    assert 4096 < fitting < 8192
    assert memory.predict(fitting) <= 0.9 * 4 * 2**30


def test_plan_tells_whether_the_batch_fits():
    assert build_plan(PROFILE, CONFIG, available=2**34).fits
    assert not build_plan(PROFILE, CONFIG, available=1000 * MIB).fits
    with pytest.raises(ConfigError, match="300 MiB of memory is too small for any batch"):
        build_plan(PROFILE, CONFIG, available=300 * MIB)


def test_batch_tokens_are_limited_by_the_corpus():
    assert max_batch_tokens(PROFILE, CONFIG, available=2**50) == math.ceil(1000 * 100 / TOKEN_MULTIPLE) * TOKEN_MULTIPLE
    small = replace(PROFILE, steps_per_epoch=1)
    assert max_batch_tokens(small, CONFIG, available=2**50) == 1024


def test_epochs_that_end_within_a_step():
    """Seven batches per epoch and four per step: thirty epochs are 53 steps, the last one with two batches."""
    config = CONFIG.model_copy(update={"max_epochs": 30, "validate_every_epochs": 1, "grad_accumulation": 4})
    profile = replace(PROFILE, steps=53, steps_per_epoch=7 / 4)
    assert count_validations(53, 7 / 4, config) == 30
    assert plan_time(profile, config, step_seconds=0.0).start == plan_time(
        PROFILE, CONFIG, step_seconds=0.0
    ).start + 0.5 * (30 - 7)
    by_steps = config.model_copy(update={"max_steps": 53, "max_epochs": None})
    assert count_validations(53, 7 / 4, by_steps) == 31  # the last epoch is incomplete


def test_example_too_long_for_each_device_is_refused(monkeypatch):
    corpus = {"kind": "files", "source": "train.en", "target": "train.de"}
    experiment = parse_experiment({"data": {"train": corpus, "max_source_length": 2000, "max_target_length": 2000}})
    monkeypatch.setattr(auto_config, "profile_experiment", lambda *_, **__: PROFILE)
    monkeypatch.setattr(auto_config, "max_batch_tokens", lambda *_, devices, **__: 1024 * devices)
    asked = {"device": torch.device("cpu"), "report": lambda _: None, "available": 2**30}
    with pytest.raises(ConfigError, match=r"1,024 tokens fit into .*, and an example may have 2,001"):
        auto_config.resolve_batch_tokens(experiment, devices=4, **asked)
