"""Who trains: one process, several that this one starts, or those that torchrun started.

Whoever does not lead waits to be told which run it is about, and learns from there; what is wrong is said by the leader
alone.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from dragoman.errors import ConfigError
from dragoman.profiling.estimate import training_flops
from dragoman.profiling.memory import peak_bytes
from dragoman.runs.worker_processes import THIS_MACHINE, Assistants, Place, attempts, place, start_assistants
from dragoman.training.config import Epochs, TrainingConfig
from dragoman.training.distributed import ALONE, LONGEST_WAIT, Team, WorkerLostError
from dragoman.training.trainer import Judge

LONGEST_HANDSHAKE: Final = timedelta(minutes=2)
"""Until workers that are all there have found each other; who is lost in the meantime is noticed by nothing else."""
FEWEST_TOKENS: Final = 512
"""Of a batch, for each worker: with fewer, what they tell each other takes longer than what they learn."""
MOST_A_CORE: Final = 4
"""Workers; two on one core show how it goes, hundreds take all the memory of a machine."""
WORTH_STARTING: Final = 1e12
"""Operations of a training that take longer than the start of workers."""


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
        if place() is None:
            _require_room(config.workers, device)
        return config.workers
    if device.type == "cuda":
        return torch.cuda.device_count() if device.index is None else 1
    length = config.length
    seen = length.count * (tokens if isinstance(length, Epochs) else config.budget * config.accumulate)
    if device.type != "cpu" or seen * training_flops(model) < WORTH_STARTING:
        return 1
    return max(1, min(torch.get_num_threads(), config.budget // FEWEST_TOKENS))


def _require_room(workers: int, device: torch.device) -> None:
    """Raises ConfigError where this machine would break down under so many workers."""
    if device.type == "cuda":
        most, have = torch.cuda.device_count(), f"{torch.cuda.device_count()} GPUs"
    else:
        cores = os.cpu_count() or 1
        most, have = MOST_A_CORE * cores, f"{cores} cores"
    if workers > most:
        raise ConfigError(
            f"training.workers = {workers:,}: this machine has {have}, and more than {most} workers are not started on "
            "it; lower it, or leave it out"
        )


@contextmanager
def team_of(size: int, *, told: Mapping[str, Any], early: Assistants | None = None) -> Iterator[Team]:
    """The team that this process leads, inside; `told` is what the others must know, the folder of the run too.

    Who was started `early` takes part where a team of that size is wanted, and is sent away elsewhere. Raises RunError
    where the others cannot be started.
    """
    here = place()
    if early is not None and early.size != size:
        early.dismiss()
        early = None
    if here is None and size == 1:
        yield ALONE
        return
    if here is not None:
        store = _store()
        store.set(_begun(Path(told["folder"])), "")
        with _together(_gathered(store, here.size), 0, here.size, told=told) as (team, _):
            yield team
        return
    assistants = early or start_assistants(size)
    before = torch.get_num_threads()
    share = max(1, before // size)
    try:
        store = _opened(assistants)
        torch.set_num_threads(share)
        with _together(store, 0, size, told={**told, "threads": share}) as (team, _):
            yield team
    finally:
        assistants.see_off()
        torch.set_num_threads(before)


@contextmanager
def team_joined(here: Place) -> Iterator[tuple[Team, dict[str, Any]]]:
    """The team of a process that does not lead, and what the leader told. Raises WorkerLostError where it is gone."""
    try:
        store = _answered(_store(), here.rank)
    except dist.DistError as error:
        raise WorkerLostError("the worker that leads was lost") from error
    with _together(store, here.rank, here.size, told=None) as (team, heard):
        if "threads" in heard:
            torch.set_num_threads(heard["threads"])
        yield team, heard


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


def began_here(folder: Path) -> bool:
    """Whether these workers began the run in a folder, before torchrun started them again."""
    if attempts() > 0:
        return True
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # what is noted outlives the workers
    return kept and bool(_store().check([_begun(folder)]))


def note_peak(team: Team, device: torch.device) -> None:
    """Have the leader know the most memory that this worker took."""
    if team.notes is not None:
        team.notes.set(_peak_of(team.rank), str(peak_bytes(device)))


def peaks_of_others(team: Team) -> list[int]:
    """The bytes that each worker beside this one noted at its end, for which this waits."""
    if team.notes is None:
        return []
    return [int(team.notes.get(_peak_of(rank))) for rank in range(1, team.size)]


@contextmanager
def _together(
    store: Any, rank: int, size: int, *, told: Mapping[str, Any] | None
) -> Iterator[tuple[Team, dict[str, Any]]]:
    """A team that has met, and what its leader told to all, until the end of the block."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LONGEST_HANDSHAKE)
    except RuntimeError as error:
        raise WorkerLostError("a worker was lost while the workers met") from error
    try:
        dist.distributed_c10d._set_pg_timeout(LONGEST_WAIT)
        team = Team(rank, size, store)
        with team.joining_shards():
            yield team, team.agreed(None if told is None else dict(told))
    finally:
        with suppress(RuntimeError):  # what was under way when a worker was lost fails once more
            dist.destroy_process_group()


def _opened(assistants: Assistants) -> Any:
    """What all meet at, once the assistants are there; a rendezvous would not notice that one has ended."""
    port = assistants.door.getsockname()[1]
    store = dist.TCPStore(  # type: ignore[attr-defined]
        THIS_MACHINE,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=LONGEST_WAIT,
        master_listen_fd=assistants.door.detach(),
    )
    return _gathered(store, assistants.size, meanwhile=assistants.require_alive)


def _store() -> Any:
    """What the environment says to meet at."""
    return next(rendezvous("env://", timeout=LONGEST_WAIT))[0]


def _gathered(store: Any, size: int, *, meanwhile: Callable[[], None] = lambda: None) -> Any:
    """The part of a store that the workers of this start share, once they are all there; for the one that leads.

    What was noted before a restart may still be there, and torchrun counts restarts on each machine by itself. So the
    leader chooses a name, and tells it to whoever asks.
    """
    name = uuid4().hex
    own = dist.PrefixStore(name, store)  # type: ignore[attr-defined]
    while not own.check([_here(rank) for rank in range(1, size)]):
        for rank in range(1, size):
            if store.check([_asks(rank)]):
                store.set(_answer(store.get(_asks(rank)).decode()), name)
        meanwhile()
        time.sleep(0.02)
    return own


def _answered(store: Any, rank: int) -> Any:
    """The part of a store that the leader chose, for another worker, which asks by a name of its own."""
    name = uuid4().hex
    store.set(_asks(rank), name)
    own = dist.PrefixStore(store.get(_answer(name)).decode(), store)  # type: ignore[attr-defined]
    own.set(_here(rank), "")
    return own


def _asks(rank: int) -> str:
    return f"asks/{rank}"


def _answer(name: str) -> str:
    return f"answer/{name}"


def _here(rank: int) -> str:
    return f"here/{rank}"


def _peak_of(rank: int) -> str:
    return f"peak/{rank}"


def _begun(folder: Path) -> str:
    return f"begun/{folder.absolute()}"
