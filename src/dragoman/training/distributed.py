"""Data-parallel workers: processes that share every step and hold the same weights.

All workers get the same batches, and each computes its own rows. Sums of losses and gradients are over all workers, so
a step does not depend on their number. The main worker alone validates, writes and reports.
"""

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar, final
from uuid import uuid4

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from dragoman.data.batching.batch_streams import RowBatch
from dragoman.errors import TrainingError
from dragoman.training.launch import (
    WorkerProcesses,
    WorkerRank,
    local_store,
    restart_count,
    start_workers,
    training_secret,
    worker_rank,
)
from dragoman.training.worker_messages import receive, send_to_all

HANDSHAKE_TIMEOUT: Final = timedelta(minutes=2)
"""Limit for the connections between workers; a worker lost meanwhile is not detected otherwise."""
COLLECTIVE_TIMEOUT: Final = timedelta(hours=6)
"""Limit for collective operations: workers wait this long for validation. A lost worker is detected at once."""
FAILURE_REASON_SECONDS: Final = 2.0

_B = TypeVar("_B", bound=RowBatch)


class WorkerLostError(TrainingError):
    """Another worker has ended."""


@final
@dataclasses.dataclass(frozen=True)
class WorkerGroup:
    """Workers of a training; `rank` is the number of this process, from 0."""

    rank: int = 0
    world_size: int = 1
    store: Any = None
    """PyTorch's store, for failure reasons; None for a single worker."""
    secret: bytes = dataclasses.field(default=b"", repr=False)
    """Secret of the training, which signs the messages of the main worker."""
    message_numbers: Iterator[int] = dataclasses.field(default_factory=itertools.count, repr=False, compare=False)

    @property
    def is_main(self) -> bool:
        """Return whether this worker validates, writes and reports."""
        return self.rank == 0

    def own_part(self, batch: _B) -> tuple[_B, slice, float]:
        """Return this worker's part of a batch, its rows, and weight 1; if there are too few, the first row, weight 0.

        Every worker computes something, because workers with sharded weights must move in step. Rows are dealt in turn,
        because neighboring rows have similar lengths.
        """
        if self.world_size == 1:
            return batch, slice(None), 1.0
        has_rows = self.rank < len(batch)
        rows = slice(self.rank, None, self.world_size) if has_rows else slice(0, 1)
        return _select_rows(batch, rows), rows, float(has_rows)

    def all_reduce(self, numbers: Tensor) -> Tensor:
        """Sum a tensor over all workers, in place. Raises WorkerLostError."""
        if self.world_size > 1:
            with self.detect_lost_workers(collective=True):
                dist.all_reduce(numbers)
        return numbers

    def all_reduce_gradients(self, model: nn.Module) -> None:
        """Sum the gradients of every parameter over all workers. Raises WorkerLostError.

        Gradients of sharded parameters are already summed in the backward pass.
        """
        existing = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        gradients = [gradient for gradient in existing if not is_shard(gradient)]
        if self.world_size == 1 or not gradients:
            return
        summed = self.all_reduce(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = summed.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [part.view_as(one) for part, one in zip(parts, gradients, strict=True)])

    def any(self, condition: bool) -> bool:
        """Return whether the condition holds for any worker. Raises WorkerLostError."""
        return bool(self.all_reduce(torch.tensor(float(condition))) > 0) if self.world_size > 1 else condition

    def broadcast(self, value: Any) -> Any:
        """Return the main worker's value, as JSON has it on other workers, which may pass None.

        Raises WorkerLostError, and TrainingError on a message of another program.
        """
        if self.world_size == 1:
            return value
        number = next(self.message_numbers)
        with self.detect_lost_workers(collective=True):
            if not self.is_main:
                return receive(secret=self.secret, number=number)
            send_to_all(value, secret=self.secret, number=number)
            return value

    def report_failure(self, message: str) -> None:
        """Store the reason why this worker ends, for the main worker to report."""
        if self.store is not None:
            self.store.set(f"failure/{self.rank}", message)

    @contextmanager
    def detect_lost_workers(self, *, collective: bool = False) -> Iterator[None]:
        """Raise WorkerLostError where PyTorch fails because a worker ended; other errors pass.

        A `collective` operation fails for no other reason.
        """
        try:
            yield
        except RuntimeError as error:
            # gloo only names its source file
            in_transport = isinstance(error, dist.DistError) or "/gloo/" in str(error)
            if collective or (self.world_size > 1 and in_transport):
                raise WorkerLostError(self._failure_reason()) from error
            raise

    def _failure_reason(self) -> str:
        """Return the reason that a lost worker stored, if it had time to."""
        end = time.monotonic() + FAILURE_REASON_SECONDS
        while self.is_main and self.store is not None and time.monotonic() < end:
            for rank in range(1, self.world_size):
                if self.store.check([f"failure/{rank}"]):
                    return self.store.get(f"failure/{rank}").decode()
            time.sleep(0.05)
        return "a worker was lost"


SINGLE_WORKER: Final = WorkerGroup()
"""Group of one worker."""


@contextmanager
def use_threads(number: int) -> Iterator[None]:
    """Compute with this number of threads inside the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def lead_workers(
    world_size: int, *, threads: int | None = None, message: Mapping[str, Any], early: WorkerProcesses | None = None
) -> Iterator[WorkerGroup]:
    """Yield the group of workers that this process leads, and send them `message` with the folder of the run.

    Each worker has the given number of threads, by default an equal share; workers of torchrun have those of the
    environment. Workers started `early` are used if their number fits, and are killed otherwise. Raises RunError if a
    worker cannot be started.
    """
    own_rank = worker_rank()
    if early is not None and early.world_size != world_size:
        early.kill()
        early = None
    if own_rank is not None:
        store = _open_torchrun_store()
        store.set(_started_key(Path(message["folder"])), "")
        store = _await_workers(store, own_rank.world_size)
        group = WorkerGroup(0, own_rank.world_size, store, training_secret())
        with _process_group(group, message=message) as (workers, _):
            yield workers
        return
    share = threads or max(1, torch.get_num_threads() // world_size)
    if world_size == 1:
        with use_threads(share):
            yield SINGLE_WORKER
        return
    processes = early or start_workers(world_size)
    try:
        store = _await_workers(_open_local_store(processes.store), world_size, check=processes.check_alive)
        group = WorkerGroup(0, world_size, store, processes.secret)
        with use_threads(share), _process_group(group, message={**message, "threads": share}) as (workers, _):
            yield workers
    finally:
        processes.wait()


@contextmanager
def join_workers(own_rank: WorkerRank) -> Iterator[tuple[WorkerGroup, dict[str, Any]]]:
    """Yield the group of workers that another process leads, and its message. Raises WorkerLostError."""
    path = local_store()
    try:
        store = _join_store(_open_torchrun_store() if path is None else _open_local_store(path), own_rank.rank)
    except dist.DistError as error:
        raise WorkerLostError("the main worker was lost") from error
    group = WorkerGroup(own_rank.rank, own_rank.world_size, store, training_secret())
    with _process_group(group, message=None) as (workers, received):
        if "threads" in received:
            torch.set_num_threads(received["threads"])
        yield workers, received


def worker_message(folder: Path, device: torch.device) -> dict[str, str]:
    """Return the message of the main worker: the run folder and the kind of device."""
    return {"folder": str(folder.absolute()), "device": device.type}


@contextmanager
def all_cores(workers: WorkerGroup) -> Iterator[None]:
    """Use the cores of all workers of this machine while they wait for the main worker, or after they ended."""
    own = torch.get_num_threads()
    count = workers.world_size if worker_rank() is None else 1  # workers of torchrun may be on other machines
    with use_threads(min(own * count, max(own, os.cpu_count() or own))):
        yield


def was_started_here(folder: Path) -> bool:
    """Return whether these workers started the run in a folder before torchrun restarted them."""
    if restart_count() > 0:
        return True
    persistent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # the store outlives the workers
    return persistent and bool(_open_torchrun_store().check([_started_key(folder)]))


@contextmanager
def _process_group(
    workers: WorkerGroup, *, message: Mapping[str, Any] | None
) -> Iterator[tuple[WorkerGroup, dict[str, Any]]]:
    """Connect the workers; yield them and the message of the main worker."""
    rank, size = workers.rank, workers.world_size
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        dist.init_process_group(backend, store=workers.store, rank=rank, world_size=size, timeout=HANDSHAKE_TIMEOUT)
    except RuntimeError as error:
        raise WorkerLostError("a worker was lost while the workers connected") from error
    try:
        dist.distributed_c10d._set_pg_timeout(COLLECTIVE_TIMEOUT)
        with workers.detect_lost_workers():
            yield workers, workers.broadcast(None if message is None else dict(message))
    finally:
        with suppress(RuntimeError):  # an operation that failed when a worker was lost fails again
            dist.destroy_process_group()


def _open_torchrun_store() -> Any:
    """Open the store whose address is in the environment."""
    return next(rendezvous("env://", timeout=COLLECTIVE_TIMEOUT))[0]


def _open_local_store(path: Path) -> Any:
    """Open the store of the workers of one machine, a file: every program of the machine could write to a port."""
    store = dist.FileStore(str(path), -1)  # type: ignore[attr-defined]
    store.set_timeout(COLLECTIVE_TIMEOUT)
    return store


def _await_workers(store: Any, size: int, *, check: Callable[[], None] = lambda: None) -> Any:
    """Return the part of a store for this start of the workers, after all of them have joined.

    Entries of a start before a restart may still exist, and torchrun counts restarts on each machine separately. The
    main worker therefore chooses a name for this start and sends it to every worker that requests it.
    """
    name = uuid4().hex
    own = dist.PrefixStore(name, store)  # type: ignore[attr-defined]
    while not own.check([f"ready/{rank}" for rank in range(1, size)]):
        for rank in range(1, size):
            if store.check([f"request/{rank}"]):
                store.set(f"reply/{store.get(f'request/{rank}').decode()}", name)
        check()
        time.sleep(0.02)
    return own


def _join_store(store: Any, rank: int) -> Any:
    """Return the part of a store that the main worker chose for this start."""
    request = uuid4().hex
    store.set(f"request/{rank}", request)
    own = dist.PrefixStore(store.get(f"reply/{request}").decode(), store)  # type: ignore[attr-defined]
    own.set(f"ready/{rank}", "")
    return own


def _started_key(folder: Path) -> str:
    return f"started/{folder.absolute()}"


def is_sharded(model: nn.Module) -> bool:
    """Return whether this worker holds only a shard of each parameter."""
    return is_shard(next(model.parameters()))


def gather_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gather sharded tensors on the CPU; all workers must call this."""
    return {name: full_tensor(tensor.detach()).cpu() for name, tensor in tensors.items()}


def full_tensor(tensor: Any) -> Tensor:
    """Gather a tensor if it is a shard; all workers must call this."""
    return tensor.full_tensor() if is_shard(tensor) else tensor


def shard_like(tensor: Tensor, shard: Any) -> Tensor:
    """Return this worker's shard of a tensor, placed like another shard; the tensor itself if that is none."""
    if not is_shard(shard):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    replicated = [Replicate()] * shard.device_mesh.ndim
    return DTensor.from_local(tensor, shard.device_mesh, replicated).redistribute(placements=shard.placements)


def is_shard(tensor: Tensor) -> bool:
    """Return whether a tensor is a DTensor, whose module takes long to import."""
    return hasattr(tensor, "full_tensor")


def _select_rows(value: Any, rows: slice) -> Any:
    """Select rows of all tensors and arrays of a batch."""
    if isinstance(value, Tensor | np.ndarray):
        return value[rows]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _select_rows(getattr(value, name), rows) for name in names})
    return value
