"""Where a process finds its place among workers, and assistants that are started before it is known what they do."""

import json
import signal
import subprocess
import sys

import pytest

from dragoman.errors import RunError
from dragoman.runs import worker_processes
from dragoman.runs.folder import RunFolder
from dragoman.runs.worker_processes import WorkerRank, restart_count, start_workers, start_workers_early, worker_rank
from dragoman.runs.workers import lead_workers

ENVIRONMENT = {"RANK": "5", "WORLD_SIZE": "7", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that gives the folder of a run that was begun by so many workers, on a machine with two cores."""
    monkeypatch.setattr(worker_processes.os, "cpu_count", lambda: 2)

    def begun_by(workers: object, *, asked: object = "auto") -> RunFolder:
        (tmp_path / "environment.json").write_text(json.dumps({"workers": workers}))
        (tmp_path / "config.yaml").write_text(json.dumps({"training": {"workers": asked}}))
        return RunFolder(tmp_path)

    return begun_by


def test_a_place_is_read_off_the_environment(monkeypatch):
    assert worker_rank() is None
    for name, value in ENVIRONMENT.items():
        assert worker_rank() is None  # until all of it is there
        monkeypatch.setenv(name, value)
    assert worker_rank() == WorkerRank(rank=5, size=7, local_rank=1)
    assert worker_rank().device == "cuda:1"


def test_a_first_start_is_no_restart(monkeypatch):
    assert restart_count() == 0
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert restart_count() == 2


def test_assistants_are_on_their_way_before_pytorch_is_loaded():
    code = "import sys, dragoman.cli.train, dragoman.runs.worker_processes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_who_was_started_early_takes_part(run):
    with start_workers_early(run(2)) as early:
        [process] = early.processes
        with lead_workers(2, message={"folder": "nowhere", "device": "cpu"}, early=early) as team:
            assert team.world_size == 2
        assert process.poll() == 2  # by itself, since there is no such folder; one that is sent away is killed


def test_who_is_not_needed_is_sent_away(run):
    with start_workers_early(run(2)) as early, lead_workers(1, message={}, early=early) as team:
        assert team.world_size == 1
        assert early.processes[0].poll() == -signal.SIGKILL


def test_nor_does_anyone_stay_whom_nobody_took(run):
    with start_workers_early(run(2)) as early:
        assert early.processes[0].poll() is None
    assert early.processes[0].poll() is not None


@pytest.mark.parametrize(("begun_by", "asked", "size"), [(2, "auto", 2), (1, 2, 2), (2, 1, None), (1, "auto", None)])
def test_the_configuration_says_how_many_or_what_the_run_began_with(run, begun_by, asked, size):
    with start_workers_early(run(begun_by, asked=asked)) as early:
        assert (early and early.size) == size


def test_none_is_called_where_none_is_wanted(run, monkeypatch):
    with start_workers_early(None) as early:
        assert early is None
    for workers in (1, 3, "many", True):
        with start_workers_early(run(workers)) as early:
            assert early is None
    with start_workers_early(run(1, asked=[2])) as early:
        assert early is None
    ended = run(2)
    ended.weights.touch()
    with start_workers_early(ended) as early:
        assert early is None
    ended.weights.unlink()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with start_workers_early(ended) as early:
        assert early is None


def test_who_does_not_arrive_is_missed_at_once(monkeypatch):
    monkeypatch.setattr(worker_processes.sys, "executable", "false")
    missed = pytest.raises(RunError, match=r"a worker could not be started \(it ended with 1\).*training.num_workers=1")
    with missed, lead_workers(2, message={}):
        pytest.fail("it did not arrive")


def test_who_is_dismissed_is_gone():
    found = start_workers(3)
    assert found.size == 3
    found.kill()
    assert all(process.poll() is not None for process in found.processes)
    found.kill()  # where nobody is left, nothing happens
