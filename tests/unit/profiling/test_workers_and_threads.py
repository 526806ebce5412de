"""Automatic number of workers and of their threads."""

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.profiling import workers_and_threads
from dragoman.profiling.workers_and_threads import (
    choose_arrangement,
    choose_num_workers,
    describe_arrangement,
    recorded_arrangement,
)
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup, lead_workers
from tests.tiny_training import SMALL, build_network

CPU = torch.device("cpu")
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
NETWORK = build_network(SMALL, seed=1)
MANY = 10**9
"""Tokens of a long epoch."""


@pytest.fixture
def cores(monkeypatch):
    """Function that sets the number of cores."""

    def set_cores(number: int) -> None:
        monkeypatch.setattr(workers_and_threads.torch, "get_num_threads", lambda: number)

    return set_cores


def chosen(config: TrainingConfig, *, tokens: int = MANY, device: torch.device = CPU) -> int:
    return choose_num_workers(config, NETWORK, tokens=tokens, device=device)


@pytest.mark.parametrize(
    ("threads", "batch_tokens", "expected"),
    [(1, 4096, 1), (2, 4096, 2), (3, 4096, 3), (64, 4096, 8), (2, 1024, 2), (2, 1023, 1), (2, 100, 1)],
)
def test_one_worker_per_core_if_batches_are_large(cores, threads, batch_tokens, expected):
    cores(threads)
    assert chosen(TrainingConfig(batch_tokens=batch_tokens)) == expected


def test_short_training_gets_one_worker(cores):
    cores(2)
    assert chosen(TrainingConfig(max_epochs=1), tokens=1000) == 1
    assert chosen(TrainingConfig(max_steps=1)) == 1
    assert chosen(TrainingConfig(max_steps=10**6), tokens=1000) == 2


@pytest.mark.parametrize("number", [1, 3])
def test_configured_number_is_used(cores, number):
    cores(2)
    assert chosen(TrainingConfig(num_workers=number), tokens=1) == number


@pytest.mark.parametrize("number", ["auto", 1])
def test_sharding_starts_no_workers(cores, number):
    """Only torchrun starts workers that hold shards."""
    cores(2)
    assert chosen(TrainingConfig(sharding="full", num_workers=number)) == 1


def test_sharding_with_own_workers_is_refused(cores, monkeypatch):
    cores(2)
    config = TrainingConfig(sharding="full", num_workers=3)
    with pytest.raises(ConfigError, match=r"training.num_workers = 3 .* start the command with torchrun"):
        chosen(config)
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert chosen(config) == 1


def test_one_worker_per_gpu_unless_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(workers_and_threads.torch.cuda, "device_count", lambda: 5)
    assert chosen(TrainingConfig(), device=torch.device("cuda")) == 5
    assert chosen(TrainingConfig(), device=torch.device("cuda", 3)) == 1
    assert chosen(TrainingConfig(), device=torch.device("mps")) == 1


def test_too_many_workers_are_refused(monkeypatch):
    monkeypatch.setattr(workers_and_threads.os, "cpu_count", lambda: 2)
    assert chosen(TrainingConfig(num_workers=8)) == 8
    with pytest.raises(
        ConfigError, match=r"training\.num_workers = 9: this machine has 2 cores and supports at most 8"
    ):
        chosen(TrainingConfig(num_workers=9))
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert chosen(TrainingConfig(num_workers=9)) == 9, "torchrun started them, maybe elsewhere"


def arranged(*, batch_tokens: int, tokens: int = MANY, **choices) -> tuple[int, int]:
    config = TrainingConfig(batch_tokens=batch_tokens, **choices)
    found = choose_arrangement(config, NETWORK, tokens=tokens, device=CPU)
    return found.num_workers, found.num_threads


@pytest.mark.parametrize(
    ("threads", "batch_tokens", "choices", "expected"),
    [
        (2, 320, {}, (1, 1)),  # the demo
        (8, 320, {}, (1, 1)),
        (2, 4096, {}, (2, 1)),
        (2, 4096, {"num_workers": 1}, (1, 1)),
        (8, 2048, {}, (4, 1)),
        (64, 4096, {}, (8, 1)),
        (8, 4096, {"num_workers": 1}, (1, 8)),
        (8, 4096, {"num_workers": 2}, (2, 4)),
        (1, 4096, {"num_workers": 3}, (3, 1)),
    ],
)
def test_workers_have_one_thread_unless_many_are_faster(cores, monkeypatch, threads, batch_tokens, choices, expected):
    cores(threads)
    monkeypatch.setattr(workers_and_threads.cpu_library, "unusable_reason", lambda: None)
    assert arranged(batch_tokens=batch_tokens, **choices) == expected


def test_workers_of_torchrun_and_of_gpus_keep_their_threads(cores, monkeypatch):
    cores(6)
    device = torch.device("mps")
    assert choose_arrangement(TrainingConfig(batch_tokens=32), NETWORK, tokens=1, device=device).num_threads == 6
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert arranged(batch_tokens=32, num_workers=1) == (1, 6)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"device": "cpu", "num_workers": 2, "threads": 1}, (2, 1)),
        ({"device": "cpu", "num_workers": 1, "threads": 2}, (1, 2)),
        ({"device": "cpu", "num_workers": 2, "threads": 2}, None),  # too few cores
        ({"device": "cuda", "num_workers": 1, "threads": 1}, None),
        ({"device": "cpu", "num_workers": "many", "threads": 1}, None),
        ({"device": "cpu", "num_workers": 1, "threads": 0}, None),
    ],
)
def test_recorded_workers_and_threads_that_this_machine_has(cores, monkeypatch, environment, expected):
    cores(2)
    found = recorded_arrangement(environment, device=CPU)
    assert (found and (found.num_workers, found.num_threads)) == expected
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert recorded_arrangement(environment, device=CPU) is None


def test_single_worker_computes_with_the_chosen_threads():
    before = torch.get_num_threads()
    with lead_workers(1, threads=before + 1, message={}):
        assert torch.get_num_threads() == before + 1
        assert str(describe_arrangement(SINGLE_WORKER, CPU)).startswith(f"1 worker with {before + 1} threads, with")
    assert torch.get_num_threads() == before


def test_arrangement_names_the_library(monkeypatch):
    monkeypatch.setattr(workers_and_threads, "cpu_ops_instruction_set", lambda _: "abacus")
    monkeypatch.setattr(workers_and_threads.torch, "get_num_threads", lambda: 1)
    library = "with the fused operations of the CPU library (abacus)"
    assert describe_arrangement(SINGLE_WORKER, CPU) == f"1 worker with 1 thread, {library}"
    assert describe_arrangement(WorkerGroup(0, 2), CPU) == f"2 workers with 1 thread each, {library}"
    assert describe_arrangement(SINGLE_WORKER, torch.device("cuda")) is None
    assert describe_arrangement(WorkerGroup(0, 3), torch.device("cuda")) == (
        "3 workers, each of which trains on its part of every batch"
    )
