"""A moment of a training on disk: enough to go on bit for bit.

checkpoints/000012000/model.safetensors      weights
                      optimiser.safetensors  the optimiser's memory, or where each worker has a shard of it:
                      optimiser/             a file a worker
                      average.safetensors    the moving average, where one is kept
                      progress.json          update, position in the data, what was best so far
"""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from dragoman.atomic import new_folder, sync_files, write_atomically
from dragoman.errors import RunError
from dragoman.models.weights import load_tensors, save_tensors

SHARDS = "optimiser"


class Best(BaseModel):
    """The best validation so far."""

    model_config = ConfigDict(frozen=True)

    update: int
    scores: dict[str, float]


class Sums(BaseModel):
    """What the updates since the last report add up to."""

    model_config = ConfigDict(frozen=True)

    loss: float = 0.0
    negative_log_likelihood: float = 0.0
    tokens: int = 0


class Progress(BaseModel):
    """How far a training is."""

    model_config = ConfigDict(frozen=True)

    update: int = 0
    position: dict[str, Any] = {}
    tokens: int = 0
    seconds: float = 0.0
    since_report: Sums = Sums()
    regular: tuple[int, ...] = ()
    best: Best | None = None
    waited: int = 0
    rate_scale: float = 1.0
    rollbacks: int = 0

    def but(self, **changes: Any) -> "Progress":
        """The same with these changes."""
        return self.model_copy(update=changes)


@dataclass(frozen=True)
class Checkpoint:
    """All that a training needs to go on."""

    progress: Progress
    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    average: dict[str, Tensor] | None

    def apart(self) -> "Checkpoint":
        """The same in memory of its own, so that it stays what it is while training goes on."""
        return replace(
            self,
            model=_copies(self.model),
            optimiser=_copies(self.optimiser),
            average=None if self.average is None else _copies(self.average),
        )


@final
class Checkpoints:
    """The checkpoints of one run.

    The two latest can be resumed. Of older ones the weights are kept where they may yet be used: the last `keep`
    regular ones for the average, and the best.
    """

    def __init__(self, folder: Path, *, keep: int, behind: bool = False) -> None:
        """Where they are written `behind` the training, it goes on meanwhile; whoever reads them waits."""
        self.folder = folder
        self.keep = keep
        self._behind = ThreadPoolExecutor(max_workers=1) if behind else None
        self._writing: Future[None] | None = None

    def save(self, checkpoint: Checkpoint, *, write_shards: Callable[[Path], None] | None = None) -> None:
        """Write atomically, then let go of what is no longer needed. Raises RunError where the disk refuses.

        Where they are written behind the training, it is `finish` or the next `save` that raises. Where the optimiser's
        memory is in shards, `write_shards` writes it into the folder that it is given, which nothing goes on beside.
        """
        self.finish()
        if self._behind is None or write_shards is not None:
            self._write(checkpoint, write_shards)
        else:
            self._writing = self._behind.submit(self._write, checkpoint.apart())

    def finish(self) -> None:
        """Wait until what was saved is on disk. Raises RunError where that refused."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, checkpoint: Checkpoint, write_shards: Callable[[Path], None] | None = None) -> None:
        with new_folder(self._place(checkpoint.progress.update)) as folder:
            save_tensors(folder / "model.safetensors", checkpoint.model)
            if write_shards is None:
                save_tensors(folder / "optimiser.safetensors", checkpoint.optimiser)
            else:
                write_shards(folder / SHARDS)
                sync_files(folder / SHARDS)
            if checkpoint.average is not None:
                save_tensors(folder / "average.safetensors", checkpoint.average)
            write_atomically(folder / "progress.json", checkpoint.progress.model_dump_json(indent=2))
        self._let_go(checkpoint.progress)

    def updates(self) -> list[int]:
        """The updates at which a checkpoint stands, oldest first."""
        self.finish()
        return self._updates()

    def _updates(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(int(place.name) for place in self.folder.iterdir() if place.name.isdigit())

    def load(self, update: int) -> Checkpoint:
        """The checkpoint at `update`; raises RunError where it is damaged."""
        self.finish()
        place = self._place(update)
        average = place / "average.safetensors"
        try:
            progress = Progress.model_validate_json((place / "progress.json").read_bytes())
            if progress.update != update:
                raise RunError(f"{place}: its progress.json is that of update {progress.update}")
            return Checkpoint(
                progress=progress,
                model=load_tensors(place / "model.safetensors"),
                optimiser={} if self.shards(update) else load_tensors(place / "optimiser.safetensors"),
                average=load_tensors(average) if average.exists() else None,
            )
        except (OSError, ValidationError, RunError) as error:
            raise self._damaged(place, error) from error

    def shards(self, update: int) -> Path | None:
        """Where the optimiser's memory is in shards, if it is."""
        self.finish()
        place = self._place(update) / SHARDS
        return place if place.is_dir() else None

    def weights(self, update: int) -> dict[str, Tensor]:
        """The weights of one checkpoint; raises RunError where they are damaged."""
        self.finish()
        place = self._place(update)
        try:
            return load_tensors(place / "model.safetensors")
        except RunError as error:
            raise RunError(
                f"{place}: the checkpoint is damaged ({_reason(error)}); "
                "delete this folder to choose and average without it"
            ) from error

    def mean(self, updates: tuple[int, ...]) -> dict[str, Tensor]:
        """The mean of the weights at several updates (Vaswani et al., 2017, section 6.1)."""
        return mean_weights([self.weights(update) for update in updates])

    def _place(self, update: int) -> Path:
        return self.folder / f"{update:09d}"

    def _damaged(self, place: Path, error: Exception) -> RunError:
        before = [update for update in self.updates() if update < int(place.name)]
        remedy = "delete this folder to go on from the one before it" if before else "train anew in another folder"
        return RunError(f"{place}: the checkpoint is damaged ({_reason(error)}); {remedy}")

    def _let_go(self, progress: Progress) -> None:
        before = [update for update in self._updates() if update < progress.update]
        resumable = {progress.update, *before[-1:]}
        wanted = resumable | set(progress.regular[-self.keep :])
        if progress.best is not None:
            wanted.add(progress.best.update)
        for update in self._updates():
            if update not in wanted:
                self._remove(update)
            elif update not in resumable:  # what goes with the weights is twice as large
                for name in ("optimiser.safetensors", "average.safetensors"):
                    (self._place(update) / name).unlink(missing_ok=True)
                shutil.rmtree(self._place(update) / SHARDS, ignore_errors=True)

    def _remove(self, update: int) -> None:
        """Hidden first, so that what is half removed is no checkpoint."""
        doomed = self.folder / f".{self._place(update).name}.tmp"
        shutil.rmtree(doomed, ignore_errors=True)
        self._place(update).rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def mean_weights(several: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor, summed in float64."""
    return {
        name: (sum(weights[name].double() for weights in several) / len(several)).to(tensor.dtype)  # type: ignore[union-attr]
        for name, tensor in several[0].items()
    }


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def moved_average(average: Mapping[str, Tensor], weights: Mapping[str, Tensor], *, decay: float) -> dict[str, Tensor]:
    """One step of an exponential moving average (Polyak and Juditsky, 1992)."""
    return {name: value.lerp(weights[name].to(value.device), 1 - decay) for name, value in average.items()}


def _reason(error: Exception) -> str:
    """What lies behind an error, in a line and without its own remedy."""
    cause = error.__cause__ or error
    return (str(cause).splitlines() or [type(cause).__name__])[0]
