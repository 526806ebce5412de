"""Data-parallel workers: processes that share every step and hold the same weights.

All workers get the same batches, and each computes its own rows. Sums of losses and gradients are over all workers, so
a step does not depend on their number. The main worker alone validates, writes and reports.
"""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar, final, runtime_checkable

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from dragoman.errors import TrainingError

COLLECTIVE_TIMEOUT: Final = timedelta(hours=6)
"""Limit for collective operations: workers wait this long for validation. A lost worker is detected at once."""
FAILURE_REASON_SECONDS: Final = 2.0

T = TypeVar("T")


@runtime_checkable
class KeyValueStore(Protocol):
    """Store that all workers can read and write, such as PyTorch's."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...

    def check(self, keys: list[str]) -> bool: ...


class WorkerLostError(TrainingError):
    """Another worker has ended."""


@final
@dataclasses.dataclass(frozen=True)
class WorkerGroup:
    """Workers of a training; `rank` is the number of this process, from 0."""

    rank: int = 0
    world_size: int = 1
    store: KeyValueStore | None = None
    """Store for failure reasons; None for a single worker."""

    @property
    def is_main(self) -> bool:
        """Whether this worker validates, writes and reports."""
        return self.rank == 0

    def own_part(self, batch: T) -> tuple[T, float]:
        """Return this worker's rows of a batch with weight 1, or, if there are too few, one row with weight 0."""
        rows, weight = self.own_rows(len(batch.rows))  # type: ignore[attr-defined]
        return batch if self.world_size == 1 else _select_rows(batch, rows), weight

    def own_rows(self, count: int) -> tuple[slice, float]:
        """Return this worker's rows of `count` with weight 1, or, if there are too few, the first row with weight 0.

        Every worker computes something, because workers with sharded weights must move in step. Rows are dealt in turn,
        because neighboring rows have similar lengths.
        """
        if self.rank < count:
            return slice(self.rank, None, self.world_size), 1.0
        return slice(0, 1), 0.0

    def all_reduce(self, numbers: Tensor) -> Tensor:
        """Sum a tensor over all workers, in place. Raises WorkerLostError."""
        if self.world_size > 1:
            with self._collective():
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

    def broadcast(self, value: T | None) -> T:
        """Return the main worker's value; other workers may pass None. Raises WorkerLostError."""
        values: list[Any] = [value]
        if self.world_size > 1:
            with self._collective():
                dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def report_failure(self, message: str) -> None:
        """Store the reason why this worker ends, for the main worker to report."""
        if self.store is not None:
            self.store.set(_failure_key(self.rank), message)

    @contextmanager
    def detect_lost_workers(self) -> Iterator[None]:
        """Raise WorkerLostError where PyTorch fails because a worker ended; other errors pass."""
        try:
            yield
        except RuntimeError as error:
            if self.world_size > 1 and _is_transport_error(error):
                raise WorkerLostError(self._failure_reason()) from error
            raise

    @contextmanager
    def _collective(self) -> Iterator[None]:
        """Raise WorkerLostError where a collective operation fails."""
        try:
            yield
        except RuntimeError as error:
            raise WorkerLostError(self._failure_reason()) from error

    def _failure_reason(self) -> str:
        """Return the reason that a lost worker stored, if it had time to."""
        end = time.monotonic() + FAILURE_REASON_SECONDS
        while self.is_main and self.store is not None and time.monotonic() < end:
            for rank in range(1, self.world_size):
                if self.store.check([_failure_key(rank)]):
                    return self.store.get(_failure_key(rank)).decode()
            time.sleep(0.05)
        return "a worker was lost"


SINGLE_WORKER: Final = WorkerGroup()
"""Group of one worker."""


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


def _is_transport_error(error: RuntimeError) -> bool:
    """Return whether the communication between workers failed; gloo only names its source file."""
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)


def _failure_key(rank: int) -> str:
    return f"failure/{rank}"


def _select_rows(value: Any, rows: slice) -> Any:
    """Select rows of all tensors and arrays of a batch."""
    if isinstance(value, Tensor | np.ndarray):
        return value[rows]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _select_rows(getattr(value, name), rows) for name in names})
    return value
