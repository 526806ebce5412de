"""Trainings of several processes: started by the command itself or by torchrun, refused, interrupted, and killed."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.small_runs import command, dragoman, environment, small_options, write_corpus

pytestmark = pytest.mark.slow
FILES = ("--source", "train.en", "--target", "train.de")
LENGTH = {"training__length": "{kind: updates, count: 40}", "training__interval": "{kind: updates, count: 15}"}
OPTIONS = small_options(training__report=1, training__precision="float32", **LENGTH)
TWO = ("--set", "training.num_workers=2")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus, and a run by two workers that nothing happened to."""
    place = tmp_path_factory.mktemp("workers")
    write_corpus(place)
    answer = dragoman("train", *FILES, "--out", "two", *OPTIONS, *TWO, cwd=place)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.count("workers: 2") == 1
    assert answer.stderr.count("step 40/40") == 1
    return place


def start(place: Path, *arguments: object, launcher: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    whole = [*launcher, "-m", "dragoman", *map(str, arguments)] if launcher else command(*arguments)
    return subprocess.Popen(whole, cwd=place, env=environment(place), stderr=subprocess.PIPE, text=True)


def listen(process: subprocess.Popen[str], until: str) -> str:
    """What it says up to a line that begins so."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(until):
            return "".join(said)
    raise AssertionError(f"it ended without: {until}\n{''.join(said)}")


def ended(process: subprocess.Popen[str]) -> str:
    """What else it says, to its end."""
    assert process.stderr is not None
    return process.stderr.read()


def wait_for(file: Path, *, lines: int) -> None:
    """Wait until a file has so many lines."""
    end = time.monotonic() + 90
    while not file.exists() or file.read_text(encoding="utf-8").count("\n") < lines:
        assert time.monotonic() < end, f"{file} does not come to be"
        time.sleep(0.02)


def helper(process: subprocess.Popen[str]) -> int:
    """The worker with the number 1 among the descendants of a process."""
    return helpers(process)[-1]


def helpers(process: subprocess.Popen[str], *, rank: int = 1) -> list[int]:
    """Those among the descendants of a process that have a number, the one of the first helper."""
    found = [process.pid]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    wanted = f"\0RANK={rank}\0".encode()
    return [pid for pid in found if wanted in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()]


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def losses(run: Path) -> list[float]:
    events = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [event["loss"] for event in events if event["event"] == "log"]


def test_two_workers_reach_what_one_does(place):
    assert dragoman("train", *FILES, "--out", "one", *OPTIONS, cwd=place).returncode == 0
    assert losses(place / "two") == pytest.approx(losses(place / "one"), abs=2e-5)  # they are written in six digits
    assert json.loads((place / "two" / "environment.json").read_text())["workers"] == 2


def made_good(place: Path, out: str, *options: str) -> str:
    """What a training said whose first helper was killed, and which torchrun started again."""
    wanted = ("train", *FILES, "--out", out, *OPTIONS, *options)
    with start(place, *wanted, launcher=(*TORCHRUN, "--max-restarts", "1")) as run:
        said = listen(run, "step 20/")
        signal_to(helper(run), signal.SIGKILL)
        said += run.stderr.read()
        assert run.wait(timeout=120) == 0, said
    assert said.count("continuing after step") == 1, said
    return said


def test_torchrun_is_obeyed_and_a_lost_worker_is_made_good(place):
    assert made_good(place, "broken").count("workers: 2") == 2
    assert weights(place / "broken") == weights(place / "two")


def test_a_lost_worker_is_made_good_where_weights_are_in_shards(place):
    said = made_good(place, "shards", "--set", "training.sharding=full")
    assert said.count("dragoman: a worker was lost") == 1, said
    assert "continuing after step 15" in said  # what is in shards cannot be saved when one of them is gone
    assert "fault" not in said
    assert losses(place / "shards") == pytest.approx(losses(place / "two"), abs=2e-5)  # they are written in six digits
    checkpoint = max((place / "shards" / "checkpoints").iterdir())
    assert len(list(checkpoint.rglob("shard-*.safetensors"))) == 2, "not each worker wrote its own"


@pytest.mark.parametrize("lost", [0, 1])
def test_workers_of_two_machines_meet_again(place, lost):
    """Each machine has its own torchrun, which counts the restarts of its own workers alone."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{door.getsockname()[1]}")
    machine = (*TORCHRUN[:3], "--nnodes", "2", "--nproc-per-node", "1", *meeting, "--max-restarts", "1")
    run = place / f"machines-{lost}"
    options = ("train", *FILES, "--out", run, *OPTIONS)
    with start(place, *options, launcher=machine) as one, start(place, *options, launcher=machine) as other:
        wait_for(run / "metrics.jsonl", lines=20)
        signal_to((helpers(one, rank=lost) + helpers(other, rank=lost))[-1], signal.SIGKILL)
        said = [ended(one), ended(other)]
        assert (one.wait(timeout=60), other.wait(timeout=60)) == (0, 0), said
    assert sum(text.count("continuing after step") for text in said) == 1, said
    assert not any("exists already" in text for text in said)
    assert weights(run) == weights(place / "two")


def test_what_is_refused_is_said_once(place):
    began = time.monotonic()
    with start(
        place, "train", *FILES, "--out", "never", *OPTIONS, "--set", "model.num_heads=7", launcher=TORCHRUN
    ) as run:
        said = run.stderr.read()
        assert run.wait(timeout=60) != 0
    assert said.count("dragoman: ") == 1, said
    assert "model.num_heads" in said
    assert "unexpected" not in said
    assert time.monotonic() - began < 60
    assert not (place / "never").exists()


def test_a_worker_of_its_own_that_is_lost_ends_the_command_and_loses_nothing(place):
    with start(place, "train", *FILES, "--out", "lost", *OPTIONS, *TWO) as run:
        listen(run, "step 20/")
        signal_to(helper(run), signal.SIGKILL)
        said = run.stderr.read()
        assert run.wait(timeout=60) == 2, said
    assert said.splitlines()[-1] == "dragoman: a worker was lost. Go on with: dragoman train --resume lost"
    assert dragoman("train", "--resume", "lost", cwd=place).returncode == 0
    assert weights(place / "lost") == weights(place / "two")


def test_workers_do_not_outlive_a_command_that_is_killed(place):
    with start(place, "train", *FILES, "--out", "killed", *OPTIONS, *TWO) as run:
        listen(run, "step 10/")
        other = helper(run)
        run.kill()
        run.wait(timeout=60)
    end = time.monotonic() + 30
    while is_alive(other):
        assert time.monotonic() < end, "the worker goes on without its leader"
        time.sleep(0.05)


def test_an_assistant_does_not_outlive_a_command_that_is_killed_before_it_can_be_told(place):
    """It starts at once where a run had it, long before its leader can answer."""
    with start(place, "train", *FILES, "--out", "young", *OPTIONS, *TWO) as run:
        listen(run, "step 10/")
        run.send_signal(signal.SIGINT)
        run.stderr.read()
    with start(place, "train", "--resume", "young") as run:
        end = time.monotonic() + 30
        while not (others := helpers(run)):
            assert time.monotonic() < end, "no assistant was started"
            time.sleep(0.01)
        run.kill()
        run.wait(timeout=60)
    end = time.monotonic() + 30
    while is_alive(others[0]):
        assert time.monotonic() < end, "the worker goes on without its leader"
        time.sleep(0.05)


def test_a_signal_to_the_command_stops_all_workers_at_one_update(place):
    with start(place, "train", *FILES, "--out", "stopped", *OPTIONS, *TWO) as run:
        listen(run, "step 10/")
        other = helper(run)
        run.send_signal(signal.SIGINT)
        said = run.stderr.read()
        assert run.wait(timeout=60) == 2
    assert said.splitlines()[-1].startswith("dragoman: stopped after update ")
    assert said.count("dragoman: ") == 1
    assert not is_alive(other)


def signal_to(pid: int, number: int) -> None:
    subprocess.run(["kill", f"-{number}", str(pid)], check=True)
