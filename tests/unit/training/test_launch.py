"""Rank of a process, and worker processes that it starts."""

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress

import pytest

from dragoman.errors import RunError
from dragoman.runs.folder import RunFolder
from dragoman.training import launch
from dragoman.training.distributed import SINGLE_WORKER, WorkerLostError, lead_workers
from dragoman.training.launch import WorkerRank, restart_count, start_workers, start_workers_early, worker_rank

ENVIRONMENT = {"RANK": "5", "WORLD_SIZE": "7", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}


def test_rank_is_read_from_the_environment(monkeypatch):
    assert worker_rank() is None
    for name, value in ENVIRONMENT.items():
        assert worker_rank() is None  # until all variables are set
        monkeypatch.setenv(name, value)
    assert worker_rank() == WorkerRank(rank=5, world_size=7, local_rank=1)
    assert worker_rank().device == "cuda:1"


def test_rank_of_a_worker_of_this_machine(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", launch.STORE_VARIABLE: "store"}.items():
        assert worker_rank() is None
        monkeypatch.setenv(name, value)
    assert worker_rank() == WorkerRank(rank=1, world_size=2, local_rank=1)


def test_restart_count_of_torchrun(monkeypatch):
    assert restart_count() == 0
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert restart_count() == 2


def test_launch_does_not_import_pytorch():
    code = "import sys, dragoman.cli.train, dragoman.training.launch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_early_workers_take_part():
    with start_workers_early(2) as early:
        [process] = early.processes
        with lead_workers(2, message={"folder": "nowhere", "device": "cpu"}, early=early) as workers:
            assert workers.world_size == 2
        assert process.poll() == 2  # it ended by itself, because there is no such folder


def test_unneeded_early_workers_are_killed():
    with start_workers_early(2) as early, lead_workers(1, message={}, early=early) as workers:
        assert workers.world_size == 1
        assert early.processes[0].poll() == -signal.SIGKILL


def test_unused_early_workers_are_killed():
    with start_workers_early(2) as early:
        assert early.processes[0].poll() is None
    assert early.processes[0].poll() is not None


def test_no_early_workers_for_one_or_under_torchrun(monkeypatch):
    with start_workers_early(1) as early:
        assert early is None
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with start_workers_early(2) as early:
        assert early is None


@pytest.mark.parametrize(
    ("started_with", "configured", "expected"),
    [(2, "auto", 2), (1, 2, 2), (2, 1, 1), (1, "auto", 1), (3, "auto", 1), ("many", "auto", 1), (1, [2], 1)],
)
def test_expected_workers_of_a_run(tmp_path, monkeypatch, started_with, configured, expected):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    (tmp_path / "environment.json").write_text(json.dumps({"num_workers": started_with}))
    (tmp_path / "config.yaml").write_text(json.dumps({"training": {"num_workers": configured}}))
    assert RunFolder(tmp_path).expected_workers() == expected
    (tmp_path / "model.safetensors").touch()
    assert RunFolder(tmp_path).expected_workers() == 1


def test_worker_that_does_not_start_is_detected(monkeypatch):
    monkeypatch.setattr(launch.sys, "executable", "false")
    error = pytest.raises(RunError, match=r"could not be started \(it ended with 1\).*training.num_workers=1")
    with error, lead_workers(2, message={}):
        pytest.fail("the worker did not start")


def test_killed_workers_have_ended():
    found = start_workers(3)
    assert found.world_size == 3
    found.kill()
    assert all(process.poll() is not None for process in found.processes)
    assert not found.store.parent.exists()
    found.kill()  # has no effect the second time


def test_only_the_user_can_read_secret_and_store():
    with start_workers_early(2) as early:
        assert stat.S_IMODE(early.store.parent.stat().st_mode) == stat.S_IRWXU
        [process] = early.processes
        assert len(early.secret) >= 32
        assert early.secret.decode() not in " ".join(process.args)
    with start_workers_early(2) as other:
        assert other.secret != early.secret


@pytest.mark.slow
@pytest.mark.parametrize(("secret", "answer"), [("right", 0), ("wrong", 1)])
def test_worker_takes_messages_with_the_secret_only(secret, answer, tmp_path):
    code = "from dragoman.training.distributed import *\nwith join_workers(worker_rank()) as (workers, received):\n"
    code += "    assert received['folder'] == 'f'; assert workers.broadcast(None) == [[0, 1.5]]"
    store = tmp_path / "private" / "store"
    store.parent.mkdir()
    shared = {launch.STORE_VARIABLE: str(store), "RANK": "1", "WORLD_SIZE": "2"}
    own = os.environ | shared | {launch.SECRET_VARIABLE: secret}
    arguments = [sys.executable, "-c", code]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(arguments, env=own, stdin=subprocess.PIPE, stderr=errors)
    started = launch.WorkerProcesses((process,), store, b"right")
    with suppress(WorkerLostError), lead_workers(2, message={"folder": "f"}, early=started) as workers:
        assert workers.broadcast([(0, 1.5)]) == [(0, 1.5)]
    assert process.wait(timeout=60) == answer
    assert ("is not signed with the secret of this training" in (tmp_path / "errors").read_text()) == bool(answer)


def test_single_worker_has_no_process_group():
    with lead_workers(1, message={}) as workers:
        assert workers is SINGLE_WORKER
        assert workers.is_main
        assert workers.broadcast("this") == "this"
        assert workers.any(True)
        assert not workers.any(False)


def test_worker_lost_while_connecting_is_reported():
    """In a process of its own: the other worker has joined the store and does not answer."""
    code = """
from datetime import timedelta
import torch.distributed as dist
from dragoman.training import distributed
distributed.HANDSHAKE_TIMEOUT = timedelta(seconds=1)
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
with distributed._process_group(distributed.WorkerGroup(0, 2, store), message={}):
    pass
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1
    assert "WorkerLostError: a worker was lost while the workers connected" in answer.stderr
