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
from dragoman.runs.worker_processes import (
    LOCALHOST,
    WorkerProcesses,
    WorkerRank,
    restart_count,
    start_workers,
    worker_rank,
)
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import COLLECTIVE_TIMEOUT, SINGLE_WORKER, WorkerGroup, WorkerLostError
from dragoman.training.trainer import Validator

HANDSHAKE_TIMEOUT: Final = timedelta(minutes=2)
"""Until workers that are all there have found each other; who is lost in the meantime is noticed by nothing else."""
MIN_TOKENS_PER_WORKER: Final = 512
"""Of a batch, for each worker: with fewer, what they tell each other takes longer than what they learn."""
MAX_WORKERS_PER_CORE: Final = 4
"""Workers; two on one core show how it goes, hundreds take all the memory of a machine."""
MIN_FLOPS_FOR_WORKERS: Final = 1e12
"""Operations of a training that take longer than the start of workers."""


def choose_num_workers(config: TrainingConfig, model: torch.nn.Module, *, tokens: int, device: torch.device) -> int:
    """How many workers to start: as many as the configuration says, or as this machine makes use of.

    On a CPU one a core where the batches are large enough and the training, over `tokens` an epoch, is long enough;
    one a GPU.
    """
    if config.sharding == "full":
        if config.num_workers not in ("auto", 1) and worker_rank() is None:
            raise ConfigError(
                f"training.num_workers = {config.num_workers} with training.sharding = full: shards are for workers that "
                "torchrun starts; leave training.num_workers out, and start the command by torchrun"
            )
        return 1
    if config.num_workers != "auto":
        if worker_rank() is None:
            _check_num_workers(config.num_workers, device)
        return config.num_workers
    if device.type == "cuda":
        return torch.cuda.device_count() if device.index is None else 1
    trained_tokens = config.total_tokens(tokens)
    if device.type != "cpu" or trained_tokens * training_flops(model) < MIN_FLOPS_FOR_WORKERS:
        return 1
    return max(1, min(torch.get_num_threads(), config.token_budget // MIN_TOKENS_PER_WORKER))


def _check_num_workers(workers: int, device: torch.device) -> None:
    """Raises ConfigError where this machine would break down under so many workers."""
    if device.type == "cuda":
        most, have = torch.cuda.device_count(), f"{torch.cuda.device_count()} GPUs"
    else:
        cores = os.cpu_count() or 1
        most, have = MAX_WORKERS_PER_CORE * cores, f"{cores} cores"
    if workers > most:
        raise ConfigError(
            f"training.num_workers = {workers:,}: this machine has {have}, and more than {most} workers are not started on "
            "it; lower it, or leave it out"
        )


@contextmanager
def lead_workers(
    size: int, *, message: Mapping[str, Any], early: WorkerProcesses | None = None
) -> Iterator[WorkerGroup]:
    """The team that this process leads, inside; `message` is what the others must know, the folder of the run too.

    Who was started `early` takes part where a team of that size is wanted, and is sent away elsewhere. Raises RunError
    where the others cannot be started.
    """
    here = worker_rank()
    if early is not None and early.size != size:
        early.kill()
        early = None
    if here is None and size == 1:
        yield SINGLE_WORKER
        return
    if here is not None:
        store = _store()
        store.set(_started_key(Path(message["folder"])), "")
        with _process_group(_await_workers(store, here.size), 0, here.size, message=message) as (team, _):
            yield team
        return
    assistants = early or start_workers(size)
    before = torch.get_num_threads()
    share = max(1, before // size)
    try:
        store = _open_store(assistants)
        torch.set_num_threads(share)
        with _process_group(store, 0, size, message={**message, "threads": share}) as (team, _):
            yield team
    finally:
        assistants.wait()
        torch.set_num_threads(before)


@contextmanager
def join_workers(here: WorkerRank) -> Iterator[tuple[WorkerGroup, dict[str, Any]]]:
    """The team of a process that does not lead, and what the leader sent. Raises WorkerLostError where it is gone."""
    try:
        store = _join_store(_store(), here.rank)
    except dist.DistError as error:
        raise WorkerLostError("the worker that leads was lost") from error
    with _process_group(store, here.rank, here.size, message=None) as (team, heard):
        if "threads" in heard:
            torch.set_num_threads(heard["threads"])
        yield team, heard


@contextmanager
def all_cores(team: WorkerGroup) -> Iterator[None]:
    """Inside, the leader computes on what the others wait on, or waited on before they ended."""
    own = torch.get_num_threads()
    if worker_rank() is None:  # else the others are not this machine's alone
        torch.set_num_threads(min(own * team.world_size, os.cpu_count() or own))
    try:
        yield
    finally:
        torch.set_num_threads(own)


def validate_on_all_cores(judge: Validator, team: WorkerGroup) -> Validator:
    """The same judge; the others wait for it."""

    def validate(model: torch.nn.Module) -> Mapping[str, float]:
        with all_cores(team):
            return judge.validate(model)

    return replace(judge, validate=validate)


def was_started_here(folder: Path) -> bool:
    """Whether these workers began the run in a folder, before torchrun started them again."""
    if restart_count() > 0:
        return True
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # what is noted outlives the workers
    return kept and bool(_store().check([_started_key(folder)]))


def record_peak_memory(team: WorkerGroup, device: torch.device) -> None:
    """Have the leader know the most memory that this worker took."""
    if team.store is not None:
        team.store.set(_peak_key(team.rank), str(peak_bytes(device)))


def peak_memory_of_workers(team: WorkerGroup) -> list[int]:
    """The bytes that each worker beside this one noted at its end, for which this waits."""
    if team.store is None:
        return []
    return [int(team.store.get(_peak_key(rank))) for rank in range(1, team.world_size)]


@contextmanager
def _process_group(
    store: Any, rank: int, size: int, *, message: Mapping[str, Any] | None
) -> Iterator[tuple[WorkerGroup, dict[str, Any]]]:
    """A team that has met, and what its leader sent to all, until the end of the block."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=HANDSHAKE_TIMEOUT)
    except RuntimeError as error:
        raise WorkerLostError("a worker was lost while the workers met") from error
    try:
        dist.distributed_c10d._set_pg_timeout(COLLECTIVE_TIMEOUT)
        team = WorkerGroup(rank, size, store)
        with team.detect_lost_workers():
            yield team, team.broadcast(None if message is None else dict(message))
    finally:
        with suppress(RuntimeError):  # what was under way when a worker was lost fails once more
            dist.destroy_process_group()


def _open_store(assistants: WorkerProcesses) -> Any:
    """What all meet at, once the assistants are there; a rendezvous would not notice that one has ended."""
    port = assistants.door.getsockname()[1]
    store = dist.TCPStore(  # type: ignore[attr-defined]
        LOCALHOST,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=COLLECTIVE_TIMEOUT,
        master_listen_fd=assistants.door.detach(),
    )
    return _await_workers(store, assistants.size, meanwhile=assistants.require_alive)


def _store() -> Any:
    """What the environment says to meet at."""
    return next(rendezvous("env://", timeout=COLLECTIVE_TIMEOUT))[0]


def _await_workers(store: Any, size: int, *, meanwhile: Callable[[], None] = lambda: None) -> Any:
    """The part of a store that the workers of this start share, once they are all there; for the one that leads.

    What was noted before a restart may still be there, and torchrun counts restarts on each machine by itself. So the
    leader chooses a name, and tells it to whoever asks.
    """
    name = uuid4().hex
    own = dist.PrefixStore(name, store)  # type: ignore[attr-defined]
    while not own.check([_ready_key(rank) for rank in range(1, size)]):
        for rank in range(1, size):
            if store.check([_request_key(rank)]):
                store.set(_reply_key(store.get(_request_key(rank)).decode()), name)
        meanwhile()
        time.sleep(0.02)
    return own


def _join_store(store: Any, rank: int) -> Any:
    """The part of a store that the leader chose, for another worker, which asks by a name of its own."""
    name = uuid4().hex
    store.set(_request_key(rank), name)
    own = dist.PrefixStore(store.get(_reply_key(name)).decode(), store)  # type: ignore[attr-defined]
    own.set(_ready_key(rank), "")
    return own


def _request_key(rank: int) -> str:
    return f"asks/{rank}"


def _reply_key(name: str) -> str:
    return f"answer/{name}"


def _ready_key(rank: int) -> str:
    return f"here/{rank}"


def _peak_key(rank: int) -> str:
    return f"peak/{rank}"


def _started_key(folder: Path) -> str:
    return f"begun/{folder.absolute()}"
