"""Profiles of small trainings, measured in this process."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config_trees import merge
from dragoman.profiling.memory_and_time_estimate import count_flops, count_parameters
from dragoman.profiling.profiling_subprocess import (
    LEARNING_RATE,
    LENGTH_OFFSET,
    LONGEST_TOKENS,
    SHORTEST_TOKENS,
    profile_training,
    profiling_config,
    sample_validation,
    shortest_and_longest,
    step_flops,
)
from dragoman.profiling.time_and_memory_per_batch import BatchCost
from dragoman.profiling.training_profile import ProfileRequest
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import TASK_CONFIGS
from dragoman.tasks.factory import build_task
from tests.small_tasks import config_of, write_texts

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
STEP_COUNT_BYTES = 4
"""Bytes of Adam's step count, per parameter."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a corpus for every task."""
    place = tmp_path_factory.mktemp("profile")
    write_texts(place)
    return place


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    (tmp_path / "profile").mkdir()
    return RunFolder(tmp_path / "profile")


def measure(folder: RunFolder, settings, **options):
    folder.write_config(parse_experiment(settings))
    request = ProfileRequest("cpu", time.time(), 0.0, **options)
    return profile_training(folder, request, report=lambda _: None)


@pytest.mark.parametrize("name", [*TASK_CONFIGS, "pairs"])
def test_every_task_can_be_profiled(place, folder, name):
    found = measure(folder, config_of(name, place))
    model = build_task(folder.read_config()).build_model(folder, device=CPU)
    assert found.parameters == count_parameters(model)
    assert found.num_workers == 1
    assert found.steps == 9
    assert found.step_cost.predictions > 0
    assert found.step_flops > 0
    assert min(found.seconds["validation"], *found.score_seconds.values()) > 0
    assert [level.fraction for level in found.memory_levels] == [1 / 8, 1 / 4, 1 / 2, 1]
    assert all(seconds > 0 for _, seconds in found.timed_steps)
    assert found.peak_bytes >= found.memory_levels[-1].bytes > found.program_bytes


@pytest.mark.parametrize("average", [None, 0.9])
@pytest.mark.parametrize(("optimizer", "moments"), [("adam", 2), ("adamw", 2), ("muon", None)])
def test_tensor_bytes_are_those_of_the_training_state(place, folder, optimizer, moments, average):
    changes = {"optimizer": {"kind": optimizer}, "ema_decay": average}
    found = measure(folder, merge(config_of("translation", place), {"training": changes}), validate=False)
    model = build_task(folder.read_config()).build_model(folder, device=CPU)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    assert found.tensors.weights == found.tensors.gradients == weights
    assert found.tensors.ema == (weights if average else 0)
    if moments is not None:
        assert found.tensors.optimizer == moments * weights + STEP_COUNT_BYTES * len(list(model.parameters()))
    else:
        assert weights < found.tensors.optimizer < 2 * weights
    assert found.tensors.total == sum(vars(found.tensors).values())


def test_step_of_several_batches_has_their_cost(place, folder):
    settings = config_of("translation", place)
    one = measure(folder, settings, validate=False)
    several = measure(folder, merge(settings, {"training": {"grad_accumulation": 3}}), validate=False)
    assert several.step_cost.predictions == pytest.approx(3 * one.step_cost.predictions)
    assert several.step_flops == pytest.approx(3 * one.step_flops)
    assert several.steps_per_epoch == pytest.approx(one.steps_per_epoch / 3)
    largest = max(features[1] for features, _ in several.timed_steps)
    assert largest > 2 * max(features[1] for features, _ in one.timed_steps)


def test_batches_beyond_the_memory_limit_are_not_tried(place, folder):
    found = measure(folder, config_of("translation", place), memory_limit=1, validate=False)
    assert [level.fraction for level in found.memory_levels] == [1 / 8]


def test_profiled_training_does_not_learn_or_end(place, folder):
    experiment = parse_experiment(merge(config_of("translation", place), {"training": {"patience": 3}}))
    folder.write_config(experiment)
    data = build_task(experiment).prepare_data(folder, report=lambda _: None)
    profiled = profiling_config(experiment, data)
    assert profiled.training.optimizer.learning_rate == LEARNING_RATE
    assert profiled.training.patience is None
    assert profiled.decoding.output_limit(20) <= 20 + 1 + LENGTH_OFFSET < experiment.decoding.output_limit(20)
    assert profiled.model == experiment.model


def test_large_validation_set_is_sampled(place, folder, monkeypatch):
    monkeypatch.setattr("dragoman.profiling.profiling_subprocess.SHORTEST_TOKENS", 23)
    monkeypatch.setattr("dragoman.profiling.profiling_subprocess.LONGEST_TOKENS", 11)
    experiment = parse_experiment(config_of("translation", place))
    folder.write_config(experiment)
    data = build_task(experiment).prepare_data(folder, report=lambda _: None)
    sample, ratios = sample_validation(data, folder.path)
    assert 0 < len(sample.texts.valid) < len(data.texts.valid)
    assert 0 < len(sample.valid) < len(data.valid)
    assert ratios["valid"] > 1
    known = dict(data.texts.valid)
    assert all(known[source] == target for source, target in sample.texts.valid)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=400))
def test_sample_has_the_shortest_and_the_longest(lengths):
    chosen = shortest_and_longest(np.array(lengths))
    taken = sorted(lengths[row] for row in chosen)
    assert len(set(chosen.tolist())) == len(chosen)
    if len(chosen) < len(lengths):
        assert sum(taken) >= SHORTEST_TOKENS + LONGEST_TOKENS
        left = sorted(set(range(len(lengths))) - set(chosen.tolist()))
        short = [length for length in taken if length <= min(lengths[row] for row in left)]
        assert sum(short) >= SHORTEST_TOKENS
    else:
        assert taken == sorted(lengths)


def test_step_flops_count_forward_and_backward(place, folder):
    measure(folder, config_of("translation", place), validate=False)
    model = build_task(folder.read_config()).build_model(folder, device=CPU)
    costs = count_flops(model)
    cost = BatchCost(0, 0, 0, source_tokens=7, target_tokens=5, predictions=5)
    assert step_flops(model, cost) == 3 * (7 * costs["encode"] + 5 * costs["decode"])
