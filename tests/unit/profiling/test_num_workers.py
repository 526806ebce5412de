"""Automatic number of workers."""

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.profiling import num_workers
from dragoman.profiling.num_workers import choose_num_workers
from dragoman.training.config import TrainingConfig
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
        monkeypatch.setattr(num_workers.torch, "get_num_threads", lambda: number)

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
    monkeypatch.setattr(num_workers.torch.cuda, "device_count", lambda: 5)
    assert chosen(TrainingConfig(), device=torch.device("cuda")) == 5
    assert chosen(TrainingConfig(), device=torch.device("cuda", 3)) == 1
    assert chosen(TrainingConfig(), device=torch.device("mps")) == 1


def test_too_many_workers_are_refused(monkeypatch):
    monkeypatch.setattr(num_workers.os, "cpu_count", lambda: 2)
    assert chosen(TrainingConfig(num_workers=8)) == 8
    with pytest.raises(
        ConfigError, match=r"training\.num_workers = 9: this machine has 2 cores and supports at most 8"
    ):
        chosen(TrainingConfig(num_workers=9))
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert chosen(TrainingConfig(num_workers=9)) == 9, "torchrun started them, maybe elsewhere"
