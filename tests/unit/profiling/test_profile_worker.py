"""What is found by looking at the start of a training, here in this process."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import merge
from dragoman.profiling.batch_cost import Load
from dragoman.profiling.model_cost import count_flops, count_parameters
from dragoman.profiling.profile import Asked
from dragoman.profiling.profile_worker import BEYOND, RATE, calmed, flops_of, look
from dragoman.profiling.validation_sample import LONG, SHORT, shortest_and_longest, some_held_out
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import TASK_CONFIGS
from dragoman.tasks.factory import build_task
from tests.small_tasks import config_of, write_texts

CPU = torch.device("cpu")
STEP = 4
"""Bytes of the count of steps that Adam keeps beside each parameter."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a corpus for every task."""
    place = tmp_path_factory.mktemp("looking")
    write_texts(place)
    return place


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    (tmp_path / "probe").mkdir()
    return RunFolder(tmp_path / "probe")


def looked(folder: RunFolder, settings, **asked):
    folder.write_config(parse_experiment(settings))
    return look(folder, Asked("cpu", time.time(), 0.0, **asked), tell=lambda _: None)


@pytest.mark.parametrize("name", [*TASK_CONFIGS, "pairs"])
def test_every_task_can_be_looked_at(place, folder, name):
    found = looked(folder, config_of(name, place))
    network = build_task(folder.read_config()).build_model(folder, device=CPU)
    assert found.parameters == count_parameters(network)
    assert found.workers == 1
    assert found.updates == 9
    assert found.load.predictions > 0
    assert found.flops > 0
    assert min(found.seconds["validation"], *found.scores.values()) > 0
    assert [level.share for level in found.levels] == [1 / 8, 1 / 4, 1 / 2, 1]
    assert all(seconds > 0 for _, seconds in found.timed)
    assert found.peak >= found.levels[-1].bytes > found.program


@pytest.mark.parametrize("average", [None, 0.9])
@pytest.mark.parametrize(("optimizer", "moments"), [("adam", 2), ("adamw", 2), ("muon", None)])
def test_the_parts_of_memory_are_what_the_built_objects_hold(place, folder, optimizer, moments, average):
    changes = {"optimizer": {"kind": optimizer}, "ema_decay": average}
    found = looked(folder, merge(config_of("translation", place), {"training": changes}), judging=False)
    network = build_task(folder.read_config()).build_model(folder, device=CPU)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in network.parameters())
    assert found.held.weights == found.held.gradients == weights
    assert found.held.moving_average == (weights if average else 0)
    if moments is not None:
        assert found.held.optimiser == moments * weights + STEP * len(list(network.parameters()))
    else:
        assert weights < found.held.optimiser < 2 * weights
    assert found.held.total == sum(vars(found.held).values())


def test_an_update_of_several_batches_weighs_as_much_as_they(place, folder):
    settings = config_of("translation", place)
    one = looked(folder, settings, judging=False)
    several = looked(folder, merge(settings, {"training": {"grad_accumulation": 3}}), judging=False)
    assert several.load.predictions == pytest.approx(3 * one.load.predictions)
    assert several.flops == pytest.approx(3 * one.flops)
    assert several.updates_per_epoch == pytest.approx(one.updates_per_epoch / 3)
    largest = max(causes[1] for causes, _ in several.timed)
    assert largest > 2 * max(causes[1] for causes, _ in one.timed)


def test_no_batch_is_tried_that_would_seem_to_need_more_than_the_limit(place, folder):
    found = looked(folder, config_of("translation", place), limit=1, judging=False)
    assert [level.share for level in found.levels] == [1 / 8]


def test_what_is_looked_at_neither_learns_nor_ends_nor_writes_too_much(place, folder):
    experiment = parse_experiment(merge(config_of("translation", place), {"training": {"patience": 3}}))
    folder.write_config(experiment)
    materials = build_task(experiment).prepare_data(folder, report=lambda _: None)
    calm = calmed(experiment, materials)
    assert calm.training.optimizer.learning_rate == RATE
    assert calm.training.patience is None
    assert calm.decoding.limit(20) <= 20 + 1 + BEYOND < experiment.decoding.limit(20)
    assert calm.model == experiment.model


def test_of_many_held_out_pairs_some_are_translated(place, folder, monkeypatch):
    monkeypatch.setattr("dragoman.profiling.validation_sample.SHORT", 23)
    monkeypatch.setattr("dragoman.profiling.validation_sample.LONG", 11)
    experiment = parse_experiment(config_of("translation", place))
    folder.write_config(experiment)
    materials = build_task(experiment).prepare_data(folder, report=lambda _: None)
    some, times = some_held_out(materials, folder.path)
    assert 0 < len(some.texts.valid) < len(materials.texts.valid)
    assert 0 < len(some.valid) < len(materials.valid)
    assert times["valid"] > 1
    known = dict(materials.texts.valid.pairs())
    assert all(known[source] == target for source, target in some.texts.valid.pairs())


@given(st.lists(st.integers(1, 300), min_size=1, max_size=400))
def test_those_that_are_taken_are_the_shortest_and_the_longest(lengths):
    chosen = shortest_and_longest(np.array(lengths))
    taken = sorted(lengths[row] for row in chosen)
    assert len(set(chosen.tolist())) == len(chosen)
    if len(chosen) < len(lengths):
        assert sum(taken) >= SHORT + LONG
        left = sorted(set(range(len(lengths))) - set(chosen.tolist()))
        short = [length for length in taken if length <= min(lengths[row] for row in left)]
        assert sum(short) >= SHORT
    else:
        assert taken == sorted(lengths)


def test_operations_are_those_of_the_linear_maps_forward_and_backward(place, folder):
    looked(folder, config_of("translation", place), judging=False)
    network = build_task(folder.read_config()).build_model(folder, device=CPU)
    costs = count_flops(network)
    load = Load(0, 0, 0, read=7, written=5, predictions=5)
    assert flops_of(network, load) == 3 * (7 * costs["encode"] + 5 * costs["decode"])
