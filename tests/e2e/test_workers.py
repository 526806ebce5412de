"""Training with several workers, started by the command or by torchrun: results, errors, lost workers."""

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
LENGTH = {"training__max_steps": 40, "training__validate_every": 15}
OPTIONS = small_options(training__log_every=1, training__precision="float32", **LENGTH)
TWO = ("--set", "training.num_workers=2")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folder with a corpus and a run by two workers."""
    place = tmp_path_factory.mktemp("workers")
    write_corpus(place)
    answer = dragoman("train", *FILES, "--out", "two", *OPTIONS, *TWO, cwd=place, fresh=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.count("training: 2 workers with 1 thread each") == 1
    assert answer.stderr.count("step 40/40") == 1
    return place


def start(place: Path, *arguments: object, launcher: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    whole = [*launcher, "-m", "dragoman", *map(str, arguments)] if launcher else command(*arguments)
    return subprocess.Popen(whole, cwd=place, env=environment(place), stderr=subprocess.PIPE, text=True)


def listen(process: subprocess.Popen[str], until: str) -> str:
    """Return the output up to a line that begins with `until`."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(until):
            return "".join(said)
    raise AssertionError(f"it ended without: {until}\n{''.join(said)}")


def ended(process: subprocess.Popen[str]) -> str:
    """Return the remaining output."""
    assert process.stderr is not None
    return process.stderr.read()


def wait_for(file: Path, *, lines: int) -> None:
    """Wait until a file has a number of lines."""
    end = time.monotonic() + 240
    while not file.exists() or file.read_text(encoding="utf-8").count("\n") < lines:
        assert time.monotonic() < end, f"{file} does not come to be"
        time.sleep(0.02)


def worker(process: subprocess.Popen[str]) -> int:
    """Return the worker of rank 1 among the descendants of a process."""
    return workers_of(process)[-1]


def workers_of(process: subprocess.Popen[str], *, rank: int = 1) -> list[int]:
    """Return the workers of a rank among the descendants of a process."""
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


def test_two_workers_equal_one(place):
    assert dragoman("train", *FILES, "--out", "one", *OPTIONS, cwd=place).returncode == 0
    assert losses(place / "two") == pytest.approx(losses(place / "one"), abs=2e-5)  # the file has six digits
    assert json.loads((place / "two" / "environment.json").read_text())["num_workers"] == 2


def restarted(place: Path, out: str, *options: str) -> str:
    """Return the output of a training whose worker was killed and which torchrun restarted."""
    wanted = ("train", *FILES, "--out", out, *OPTIONS, *options)
    with start(place, *wanted, launcher=(*TORCHRUN, "--max-restarts", "1")) as run:
        said = listen(run, "step 20/")
        signal_to(worker(run), signal.SIGKILL)
        said += run.stderr.read()
        assert run.wait(timeout=120) == 0, said
    assert said.count("continuing after step") == 1, said
    return said


def test_torchrun_is_obeyed_and_a_lost_worker_is_restarted(place):
    assert restarted(place, "broken").count("training: 2 workers with 1 thread each") == 2
    assert weights(place / "broken") == weights(place / "two")


def test_torchrun_restarts_sharded_training(place):
    said = restarted(place, "shards", "--set", "training.sharding=full")
    assert said.count("dragoman: a worker was lost") == 1, said
    assert "continuing after step 15" in said  # shards cannot be saved without the lost worker
    assert "unexpected" not in said
    assert losses(place / "shards") == pytest.approx(losses(place / "two"), abs=2e-5)  # the file has six digits
    checkpoint = max((place / "shards" / "checkpoints").iterdir())
    assert len(list(checkpoint.rglob("shard-*.safetensors"))) == 2, "not each worker wrote its own"


@pytest.mark.parametrize("lost", [0, 1])
def test_workers_of_two_machines_reconnect(place, lost):
    """Each machine has its own torchrun, which counts only the restarts of its own workers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{server.getsockname()[1]}")
    machine = (*TORCHRUN[:3], "--nnodes", "2", "--nproc-per-node", "1", *rendezvous, "--max-restarts", "1")
    run = place / f"machines-{lost}"
    options = ("train", *FILES, "--out", run, *OPTIONS)
    with start(place, *options, launcher=machine) as one, start(place, *options, launcher=machine) as other:
        wait_for(run / "metrics.jsonl", lines=20)
        signal_to((workers_of(one, rank=lost) + workers_of(other, rank=lost))[-1], signal.SIGKILL)
        said = [ended(one), ended(other)]
        assert (one.wait(timeout=60), other.wait(timeout=60)) == (0, 0), said
    assert sum(text.count("continuing after step") for text in said) == 1, said
    assert not any("never overwritten" in text for text in said)
    assert weights(run) == weights(place / "two")


def test_error_is_printed_by_one_worker(place):
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


def test_lost_worker_ends_the_command_and_resumes(place):
    with start(place, "train", *FILES, "--out", "lost", *OPTIONS, *TWO) as run:
        listen(run, "step 20/")
        signal_to(worker(run), signal.SIGKILL)
        said = run.stderr.read()
        assert run.wait(timeout=60) == 2, said
    last = said.splitlines()[-1]
    assert last.startswith("dragoman: a worker was lost. Continue it with: dragoman train --resume lost. Or end it at")
    assert dragoman("train", "--resume", "lost", cwd=place).returncode == 0
    assert weights(place / "lost") == weights(place / "two")


def test_workers_end_with_a_killed_command(place):
    with start(place, "train", *FILES, "--out", "killed", *OPTIONS, *TWO) as run:
        listen(run, "step 10/")
        other = worker(run)
        run.kill()
        run.wait(timeout=60)
    end = time.monotonic() + 120
    while is_alive(other):
        assert time.monotonic() < end, "the worker survives the main process"
        time.sleep(0.05)


def test_early_workers_end_with_a_killed_command(place):
    """It starts early, before the main process can answer."""
    with start(place, "train", *FILES, "--out", "young", *OPTIONS, *TWO) as run:
        listen(run, "step 10/")
        run.send_signal(signal.SIGINT)
        run.stderr.read()
    with start(place, "train", "--resume", "young") as run:
        end = time.monotonic() + 120
        while not (others := workers_of(run)):
            assert time.monotonic() < end, "no worker was started"
            time.sleep(0.01)
        run.kill()
        run.wait(timeout=60)
    end = time.monotonic() + 120
    while is_alive(others[0]):
        assert time.monotonic() < end, "the worker survives the main process"
        time.sleep(0.05)


def test_signal_stops_all_workers_at_one_step(place):
    with start(place, "train", *FILES, "--out", "stopped", *OPTIONS, *TWO) as run:
        listen(run, "step 10/")
        other = worker(run)
        run.send_signal(signal.SIGINT)
        said = run.stderr.read()
        assert run.wait(timeout=60) == 130
    assert said.splitlines()[-1].startswith("dragoman: stopped after step ")
    assert said.count("dragoman: ") == 1
    assert not is_alive(other)


def signal_to(pid: int, number: int) -> None:
    subprocess.run(["kill", f"-{number}", str(pid)], check=True)
