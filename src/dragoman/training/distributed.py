"""The workers of a training: processes that share every update and hold the same weights.

Each is handed the same batches and learns from its own rows of them; sums of losses and gradients are over all, so
that an update is the same however many share it. One leads: it alone validates, writes and speaks.
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

LONGEST_WAIT: Final = timedelta(hours=6)
"""The others wait for so long while the leader validates; that a worker was lost is noticed at once."""
SECONDS_FOR_REASONS: Final = 2.0

T = TypeVar("T")


@runtime_checkable
class Notes(Protocol):
    """What all workers can write to and read, as PyTorch's stores are."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...

    def check(self, keys: list[str]) -> bool: ...


class WorkerLostError(TrainingError):
    """Another worker is gone."""


@final
@dataclasses.dataclass(frozen=True)
class Team:
    """The workers, of which this process has the number `rank`, from 0."""

    rank: int = 0
    size: int = 1
    notes: Notes | None = None
    """What a worker that goes may leave its reason in; None for one that works alone."""

    @property
    def leads(self) -> bool:
        """Whether this one speaks for all."""
        return self.rank == 0

    def part(self, batch: T) -> tuple[T, float]:
        """The rows of a batch that are this worker's, and 1; where there is no row for it, one row, and 0."""
        own, counts = self.share(len(batch.rows))  # type: ignore[attr-defined]
        return batch if self.size == 1 else _rows_of(batch, own), counts

    def share(self, rows: int) -> tuple[slice, float]:
        """Which of so many rows are this worker's, and 1; where there is none for it, the first, and 0.

        Every worker computes something, because those that share the weights have to move in step. Rows are dealt
        out in turn, for those beside each other are of like length.
        """
        if self.rank < rows:
            return slice(self.rank, None, self.size), 1.0
        return slice(0, 1), 0.0

    def total(self, numbers: Tensor) -> Tensor:
        """The sum of what each worker gives, in its place. Raises WorkerLostError."""
        if self.size > 1:
            with self._together():
                dist.all_reduce(numbers)
        return numbers

    def add_up_gradients(self, model: nn.Module) -> None:
        """Give every parameter the sum of its gradients over the workers. Raises WorkerLostError.

        Where the workers hold shards, gradients are summed as they come.
        """
        found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        gradients = [gradient for gradient in found if not is_shard(gradient)]
        if self.size == 1 or not gradients:
            return
        joined = self.total(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = joined.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [part.view_as(one) for part, one in zip(parts, gradients, strict=True)])

    def any(self, asked: bool) -> bool:
        """Whether any worker says so. Raises WorkerLostError."""
        return bool(self.total(torch.tensor(float(asked))) > 0) if self.size > 1 else asked

    def agreed(self, value: T | None) -> T:
        """The leader's value, which the others need not know. Raises WorkerLostError."""
        said: list[Any] = [value]
        if self.size > 1:
            with self._together():
                dist.broadcast_object_list(said, src=0, device=torch.device("cpu"))
        return said[0]

    def leave_note(self, sentence: str) -> None:
        """Have the leader say why this worker goes."""
        if self.notes is not None:
            self.notes.set(_note_of(self.rank), sentence)

    @contextmanager
    def joining_shards(self) -> Iterator[None]:
        """Turn into words that a worker was lost while PyTorch joined shards, amid whatever was computed.

        Raises WorkerLostError; other failures stay what they are.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size > 1 and _is_of_transport(error):
                raise WorkerLostError(self._reason()) from error
            raise

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Turn the failure of what workers do together into words."""
        try:
            yield
        except RuntimeError as error:
            raise WorkerLostError(self._reason()) from error

    def _reason(self) -> str:
        """What a worker that is gone left as its reason, if it had time to."""
        end = time.monotonic() + SECONDS_FOR_REASONS
        while self.leads and self.notes is not None and time.monotonic() < end:
            for rank in range(1, self.size):
                if self.notes.check([_note_of(rank)]):
                    return self.notes.get(_note_of(rank)).decode()
            time.sleep(0.05)
        return "a worker was lost"


ALONE: Final = Team()
"""No other worker."""


def is_sharded(model: nn.Module) -> bool:
    """Whether this worker holds a shard of each parameter only."""
    return is_shard(next(model.parameters()))


def whole(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that shards are of, on the CPU; all workers have to ask."""
    return {name: joined(tensor.detach()).cpu() for name, tensor in tensors.items()}


def joined(tensor: Any) -> Tensor:
    """The tensor that it is a shard of, if it is one; all workers have to ask."""
    return tensor.full_tensor() if is_shard(tensor) else tensor


def sharded_like(tensor: Tensor, shard: Any) -> Tensor:
    """This worker's shard of a tensor that all have, cut as another shard is; itself where that is none."""
    if not is_shard(shard):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    everywhere = [Replicate()] * shard.device_mesh.ndim
    return DTensor.from_local(tensor, shard.device_mesh, everywhere).redistribute(placements=shard.placements)


def is_shard(tensor: Tensor) -> bool:
    """Whether it is one of PyTorch's distributed tensors, whose module takes long to import."""
    return hasattr(tensor, "full_tensor")


def _is_of_transport(error: RuntimeError) -> bool:
    """Whether it is what carries tensors between workers that failed; gloo says so by the file it failed in alone."""
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)


def _note_of(rank: int) -> str:
    return f"note/{rank}"


def _rows_of(value: Any, rows: slice) -> Any:
    """The same with some of the rows of everything in it."""
    if isinstance(value, Tensor | np.ndarray):
        return value[rows]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _rows_of(getattr(value, name), rows) for name in names})
    return value
