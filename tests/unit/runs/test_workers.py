"""How many workers a training is given."""

import subprocess
import sys

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.runs import workers
from dragoman.runs.workers import choose_num_workers, lead_workers
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import SINGLE_WORKER
from tests.tiny_training import SMALL, build_network

CPU = torch.device("cpu")
AMONG_SEVERAL = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
NETWORK = build_network(SMALL, seed=1)
MANY = 10**9
"""Tokens of an epoch that take long."""


@pytest.fixture
def cores(monkeypatch):
    """A function that sets how many there are."""

    def there_are(number: int) -> None:
        monkeypatch.setattr(workers.torch, "get_num_threads", lambda: number)

    return there_are


def wanted(config: TrainingConfig, *, tokens: int = MANY, device: torch.device = CPU) -> int:
    return choose_num_workers(config, NETWORK, tokens=tokens, device=device)


@pytest.mark.parametrize(
    ("threads", "batch_tokens", "expected"),
    [(1, 4096, 1), (2, 4096, 2), (3, 4096, 3), (64, 4096, 8), (2, 1024, 2), (2, 1023, 1), (2, 100, 1)],
)
def test_a_core_each_where_the_batches_are_large_enough(cores, threads, batch_tokens, expected):
    cores(threads)
    assert wanted(TrainingConfig(batch_tokens=batch_tokens)) == expected


def test_what_is_over_soon_is_learnt_by_one(cores):
    cores(2)
    assert wanted(TrainingConfig(max_epochs=1), tokens=1000) == 1
    assert wanted(TrainingConfig(max_steps=1)) == 1
    assert wanted(TrainingConfig(max_steps=10**6), tokens=1000) == 2


@pytest.mark.parametrize("number", [1, 3])
def test_who_names_a_number_gets_it(cores, number):
    cores(2)
    assert wanted(TrainingConfig(num_workers=number), tokens=1) == number


@pytest.mark.parametrize("number", ["auto", 1])
def test_who_asks_for_shards_is_given_one_process(cores, number):
    """Those that torchrun starts are its own."""
    cores(2)
    assert wanted(TrainingConfig(sharding="full", num_workers=number)) == 1


def test_shards_are_refused_to_workers_that_are_not_torchrun_s(cores, monkeypatch):
    cores(2)
    config = TrainingConfig(sharding="full", num_workers=3)
    with pytest.raises(ConfigError, match=r"training.num_workers = 3 .* start the command by torchrun"):
        wanted(config)
    for name, value in AMONG_SEVERAL.items():
        monkeypatch.setenv(name, value)
    assert wanted(config) == 1


def test_one_for_each_gpu_unless_one_is_named(monkeypatch):
    monkeypatch.setattr(workers.torch.cuda, "device_count", lambda: 5)
    assert wanted(TrainingConfig(), device=torch.device("cuda")) == 5
    assert wanted(TrainingConfig(), device=torch.device("cuda", 3)) == 1
    assert wanted(TrainingConfig(), device=torch.device("mps")) == 1


def test_who_works_alone_has_no_team():
    with lead_workers(1, message={}) as team:
        assert team is SINGLE_WORKER
        assert team.is_main
        assert team.broadcast("this") == "this"
        assert team.any(True)
        assert not team.any(False)


def test_more_than_the_machine_can_bear_are_refused(monkeypatch):
    monkeypatch.setattr(workers.os, "cpu_count", lambda: 2)
    assert wanted(TrainingConfig(num_workers=8)) == 8
    with pytest.raises(ConfigError, match=r"training\.workers = 9: this machine has 2 cores, and more than 8 workers"):
        wanted(TrainingConfig(num_workers=9))
    for name, value in AMONG_SEVERAL.items():
        monkeypatch.setenv(name, value)
    assert wanted(TrainingConfig(num_workers=9)) == 9, "torchrun has started them, wherever they are"


def test_a_worker_that_is_lost_while_all_meet_is_told():
    """It has said that it is there, and finds nobody any more; in a process of its own, which meets nobody after it."""
    code = """
from datetime import timedelta
import torch.distributed as dist
from dragoman.runs import workers
workers.LONGEST_HANDSHAKE = timedelta(seconds=1)
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
with workers._process_group(store, 0, 2, message={}):
    pass
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1
    assert "WorkerLostError: a worker was lost while the workers met" in answer.stderr
