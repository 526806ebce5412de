"""Who trains: one process, several that this one starts, or those that torchrun started.

A worker is the same command again with its place in the environment, as torchrun puts it. Whoever does not lead waits
to be told which run it is about, and learns from there; what is wrong is said by the leader alone.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, final

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from dragoman.errors import ConfigError, RunError
from dragoman.experiment.estimate import training_flops
from dragoman.experiment.memory import peak_bytes
from dragoman.training.config import Epochs, TrainingConfig
from dragoman.training.distributed import ALONE, LONGEST_WAIT, Notes, Team
from dragoman.training.loop import Judge

FEWEST_TOKENS: Final = 512
"""Of a batch, for each worker: with fewer, what they tell each other takes longer than what they learn."""
WORTH_STARTING: Final = 1e12
"""Operations of a training that take longer than the start of workers."""
SECONDS_TO_END: Final = 10.0


@final
@dataclass(frozen=True)
class Place:
    """Where a process stands among those that torchrun, or a leader, started."""

    rank: int
    size: int
    local_rank: int

    @property
    def device(self) -> str:
        """The device of this worker where each has a GPU of its own."""
        return f"cuda:{self.local_rank}"


def place() -> Place | None:
    """The place of this process among several; None where it was started by itself."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if any(name not in os.environ for name in names):
        return None
    rank = int(os.environ["RANK"])
    return Place(rank, int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", rank)))


def restarted() -> bool:
    """Whether torchrun started this process again after a worker was lost."""
    return _attempts() > 0


def workers_for(config: TrainingConfig, model: torch.nn.Module, *, tokens: int, device: torch.device) -> int:
    """How many workers to start: as many as the configuration says, or as this machine makes use of.

    On a CPU one a core where the batches are large enough and the training, over `tokens` an epoch, is long enough;
    one a GPU.
    """
    if config.sharding == "full":
        if config.workers not in ("auto", 1) and place() is None:
            raise ConfigError(
                f"training.workers = {config.workers} with training.sharding = full: shards are for workers that "
                "torchrun starts; leave training.workers out, and start the command by torchrun"
            )
        return 1
    if config.workers != "auto":
        return config.workers
    if device.type == "cuda":
        return torch.cuda.device_count() if device.index is None else 1
    length = config.length
    seen = length.count * (tokens if isinstance(length, Epochs) else config.budget * config.accumulate)
    if device.type != "cpu" or seen * training_flops(model) < WORTH_STARTING:
        return 1
    return max(1, min(torch.get_num_threads(), config.budget // FEWEST_TOKENS))


@contextmanager
def team_of(size: int, *, told: Mapping[str, Any]) -> Iterator[Team]:
    """The team that this process leads, inside; `told` is what the others must know.

    Raises RunError where they cannot be started.
    """
    here = place()
    if here is None and size == 1:
        yield ALONE
        return
    before = torch.get_num_threads()
    started: list[subprocess.Popen[bytes]] = []
    try:
        if here is None:
            store, started = _start(size, threads=max(1, before // size))
            torch.set_num_threads(max(1, before // size))
        else:
            store, size = _met(), here.size
        yield _joined(store, 0, size, told=told)
    finally:
        _part(started)
        torch.set_num_threads(before)


@contextmanager
def team_joined(here: Place) -> Iterator[tuple[Team, dict[str, Any]]]:
    """The team of a process that does not lead, and what the leader told."""
    try:
        store = _met()
        store.set(_here(here.rank), "")
        team = _joined(store, here.rank, here.size, told=None)
        yield team, team.agreed(None)
    finally:
        _part([])


@contextmanager
def all_cores(team: Team) -> Iterator[None]:
    """Inside, the leader computes on what the others wait on, or waited on before they ended."""
    own = torch.get_num_threads()
    if place() is None:  # else the others are not this machine's alone
        torch.set_num_threads(min(own * team.size, os.cpu_count() or own))
    try:
        yield
    finally:
        torch.set_num_threads(own)


def judging_on_all_cores(judge: Judge, team: Team) -> Judge:
    """The same judge; the others wait for it."""

    def validate(model: torch.nn.Module) -> Mapping[str, float]:
        with all_cores(team):
            return judge.validate(model)

    return replace(judge, validate=validate)


def note_peak(team: Team, device: torch.device) -> None:
    """Have the leader know the most memory that this worker took."""
    if team.notes is not None:
        team.notes.set(_peak_of(team.rank), str(peak_bytes(device)))


def peaks_of_others(team: Team) -> list[int]:
    """The bytes that each worker beside this one noted at its end, for which this waits."""
    if team.notes is None:
        return []
    return [int(team.notes.get(_peak_of(rank))) for rank in range(1, team.size)]


def _joined(store: Any, rank: int, size: int, *, told: Mapping[str, Any] | None) -> Team:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LONGEST_WAIT)
    team = Team(rank, size, store)
    if told is not None:
        team.agreed(dict(told))
    return team


def _start(size: int, *, threads: int) -> tuple[Any, list[subprocess.Popen[bytes]]]:
    """The others, all on this machine, waiting to be told."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    store = dist.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=LONGEST_WAIT
    )
    command = f"import sys; sys.path[:] = {sys.path!r}; from dragoman.cli.main import main; main()"
    started = []
    for rank in range(1, size):
        around = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": store.port}
        machine = {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": str(threads)}
        own = os.environ | machine | {name: str(value) for name, value in around.items()}
        arguments = [sys.executable, "-c", command, "train"]
        # In a session of its own, Ctrl-C reaches the leader alone, who says when all stop.
        apart = {"env": own, "stdin": subprocess.DEVNULL, "start_new_session": True}
        started.append(subprocess.Popen(arguments, **apart))  # type: ignore[call-overload]  # noqa: S603
    _wait_for(started, store)
    return store, started


def _wait_for(started: Sequence[subprocess.Popen[bytes]], store: Notes) -> None:
    """Until all are there; a rendezvous would not notice that one has ended."""
    while not store.check([_here(rank) for rank in range(1, len(started) + 1)]):
        for process in started:
            if process.poll() is not None:
                for other in started:
                    other.kill()
                raise RunError(
                    f"a worker could not be started (it ended with {process.returncode}); train with "
                    "--set training.workers=1"
                )
        time.sleep(0.02)


def _met() -> Any:
    """What the environment says to meet at, without what was noted there before a restart."""
    store = next(rendezvous("env://", timeout=LONGEST_WAIT))[0]
    return dist.PrefixStore(f"attempt-{_attempts()}", store) if _attempts() else store  # type: ignore[attr-defined]


def _attempts() -> int:
    """How often torchrun has started these processes again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _here(rank: int) -> str:
    return f"here/{rank}"


def _peak_of(rank: int) -> str:
    return f"peak/{rank}"


def _part(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Leave the others; those that this process started have ended when this returns."""
    if dist.is_initialized():
        dist.destroy_process_group()
    end = time.monotonic() + SECONDS_TO_END
    for process in started:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
