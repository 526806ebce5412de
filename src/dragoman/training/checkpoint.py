"""Training checkpoints: everything needed to resume bit for bit.

checkpoints/000012000/model.safetensors      weights
                      optimizer.safetensors  optimizer state, or with sharding:
                      optimizer/             one file per worker
                      ema.safetensors        moving average of the weights, if enabled
                      progress.json          step, position in the data, best validation

Every file has a checksum. A damaged checkpoint is renamed, and the training continues from the one before.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated, Any, final

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt
from torch import Tensor

from dragoman.atomic_files import new_folder, sync_files, write_atomically
from dragoman.checksums import check_json, file_checksum, to_checked_json
from dragoman.errors import RunError, warn
from dragoman.models.weight_storage import check_finite, load_tensors, save_tensors
from dragoman.training.checkpoint_folders import checkpoint_folder, checkpoint_steps
from dragoman.training.config import TrainingConfig
from dragoman.untrusted_files import LINK_REMEDY, MEBIBYTE, FileKind

SHARDS = "optimizer"
_SHARD_CHECKSUMS = "shards"
"""Key of `progress.json`."""
DAMAGED = "damaged-"
"""Prefix of the names of damaged checkpoints."""
_PROGRESS = FileKind(MEBIBYTE, error=RunError)


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged, and another one is used."""


@dataclass(frozen=True)
class BestValidation:
    """Step and scores of the best validation so far."""

    step: int
    scores: Annotated[dict[str, float], Field(min_length=1)]


@dataclass(frozen=True)
class LossSums:
    """Sums over steps; `seconds` leave out the time between two steps."""

    loss: float = 0.0
    negative_log_likelihood: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: "LossSums") -> "LossSums":
        return LossSums(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Progress(BaseModel):
    """Counters of a training.

    `recent` holds the steps of the last validations, whose checkpoints are averaged at the end.
    """

    model_config = ConfigDict(frozen=True)

    step: NonNegativeInt = 0
    position: dict[str, NonNegativeInt] = {}
    tokens: NonNegativeInt = 0
    seconds: float = 0.0
    since_log: LossSums = LossSums()
    recent: tuple[int, ...] = ()
    best: BestValidation | None = None
    stale_validations: int = 0
    learning_rate_scale: float = 1.0
    rollbacks: int = 0
    before_end: "Progress | None" = None
    """Progress without the log and the validation that the end added; a longer training continues from it."""

    def reached_limits(self, config: TrainingConfig) -> list[str]:
        """Return the settings that end the training here."""
        counts = {
            "patience": self.stale_validations,
            "max_epochs": int(self.position.get("epoch", 0)),
            "max_steps": self.step,
        }
        return [key for key, count in counts.items() if (limit := getattr(config, key)) is not None and count >= limit]

    def fraction_done(self, config: TrainingConfig, *, tokens_per_epoch: int) -> float:
        """Return the part of a training that is done, about so within an epoch; patience may end it earlier."""
        read = int(self.position.get("batch", 0)) * config.token_budget
        epochs = int(self.position.get("epoch", 0)) + min(1.0, read / max(1, tokens_per_epoch))
        done = {"max_epochs": epochs, "max_steps": self.step}
        return max(min(1.0, one / limit) for key, one in done.items() if (limit := getattr(config, key)) is not None)

    def is_improving(self, config: TrainingConfig) -> bool:
        """Return whether the best validation is in the last third of the training, and patience did not end it.

        A score that is still 0, such as BLEU, counts as recent: it hides the progress of a new training.
        """
        if self.best is None:
            return False
        is_recent = self.best.step * 3 > self.step * 2 or min(self.best.scores.values()) == 0
        return is_recent and "patience" not in self.reached_limits(config)

    def replace(self, **changes: Any) -> "Progress":
        """Return a copy with these changes."""
        return self.model_copy(update=changes)


@dataclass(frozen=True)
class Checkpoint:
    """State of a training at one step."""

    progress: Progress
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    ema: dict[str, Tensor] | None
    shards: Path | None = None
    """Folder of a sharded optimizer state, once it is written."""

    def cpu_copy(self) -> "Checkpoint":
        """Copy the tensors to the CPU, so that training can continue while they are written."""
        ema = None if self.ema is None else _copies(self.ema)
        return Checkpoint(self.progress, _copies(self.model), _copies(self.optimizer), ema)


@final
class CheckpointStore:
    """Checkpoints of one run.

    The two latest can be resumed. Older ones keep their weights only: those of the last `keep` validations, which are
    averaged at the end, and the best.
    """

    def __init__(self, folder: Path, *, keep: int, asynchronous: bool = False) -> None:
        """With `asynchronous`, a thread writes while training continues; every reader waits for it.

        Raises RunError if the folder is a link, because checkpoints are deleted there.
        """
        if folder.is_symlink():
            raise RunError(f"{folder}: is a symbolic link; {LINK_REMEDY}")
        self.folder = folder
        self.keep = keep
        self._executor = ThreadPoolExecutor(max_workers=1) if asynchronous else None
        self._writing: Future[None] | None = None

    def save(self, checkpoint: Checkpoint, *, write_shards: Callable[[Path], None] | None = None) -> None:
        """Write a checkpoint atomically, then remove old ones. Raises RunError if the disk refuses.

        An asynchronous write raises in `finish` or in the next `save`. With a sharded optimizer, `write_shards` writes
        the optimizer state into the given folder, synchronously.
        """
        self.finish()
        if self._executor is None or write_shards is not None:
            self._write(checkpoint, write_shards)
        else:
            self._writing = self._executor.submit(self._write, checkpoint.cpu_copy())

    def finish(self) -> None:
        """Wait until the last checkpoint is on disk. Raises RunError if writing failed."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, checkpoint: Checkpoint, write_shards: Callable[[Path], None] | None = None) -> None:
        with new_folder(self._folder_of(checkpoint.progress.step)) as folder:
            save_tensors(folder / "model.safetensors", checkpoint.model)
            if write_shards is None:
                save_tensors(folder / "optimizer.safetensors", checkpoint.optimizer)
            else:
                write_shards(folder / SHARDS)
                sync_files(folder / SHARDS)
            if checkpoint.ema is not None:
                save_tensors(folder / "ema.safetensors", checkpoint.ema)
            tree = checkpoint.progress.model_dump(mode="json")
            if write_shards is not None:
                tree[_SHARD_CHECKSUMS] = {path.name: file_checksum(path) for path in (folder / SHARDS).iterdir()}
            write_atomically(folder / "progress.json", to_checked_json(tree))
        self._remove_old(checkpoint.progress)

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, oldest first."""
        self.finish()
        return self._steps()

    def _steps(self) -> list[int]:
        return checkpoint_steps(self.folder)

    def latest_progress(self) -> Progress:
        """Load the progress of the latest checkpoint in which it is intact; without any, that of a new training.

        Raises RunError if all are damaged.
        """
        steps = self.steps()
        for step in reversed(steps):
            with suppress(RunError):
                return self.load_progress(step)
        return self.load_progress(steps[-1]) if steps else Progress()

    def load_progress(self, step: int) -> Progress:
        """Load the progress of a step. Raises RunError if it is damaged."""
        self.finish()
        folder = self._folder_of(step)
        with _explain_damage(folder):
            progress = Progress.model_validate(self._read_progress(folder))
            if progress.step != step:
                raise RunError(f"{folder}: its progress.json is that of step {progress.step}")
        return progress

    def load_latest(self, check: Callable[[Checkpoint], None] = lambda _: None) -> Checkpoint | None:
        """Load the latest checkpoint that is intact and in which `check` raises no RunError; None without any.

        Later ones are renamed, with a warning. Raises the RunError of the latest if none is usable.
        """
        errors: dict[int, RunError] = {}
        for step in reversed(self.steps()):
            try:
                checkpoint = self.load(step)
                self._check_shards(step)
                check(checkpoint)
            except RunError as error:
                errors[step] = error
                continue
            for damaged, reason in errors.items():
                self._rename_damaged(damaged, reason, f"The training continues from the checkpoint of step {step:,}")
            return checkpoint
        if errors:
            raise next(iter(errors.values()))
        return None

    def load(self, step: int) -> Checkpoint:
        """Load the checkpoint of a step. Raises RunError if it is damaged, or not finite."""
        progress, folder = self.load_progress(step), self._folder_of(step)
        ema, shards = folder / "ema.safetensors", folder / SHARDS if (folder / SHARDS).is_dir() else None
        with _explain_damage(folder):
            return Checkpoint(
                progress=progress,
                model=self._load_finite(folder / "model.safetensors"),
                optimizer={} if shards else self._load_finite(folder / "optimizer.safetensors"),
                ema=self._load_finite(ema) if os.path.lexists(ema) else None,
                shards=shards,
            )

    def _load_finite(self, path: Path) -> dict[str, Tensor]:
        tensors = load_tensors(path, root=self._root)
        check_finite(tensors, where=path.name)
        return tensors

    def _check_shards(self, step: int) -> None:
        """Raise RunError if the shards of an optimizer state are damaged; PyTorch reads them later."""
        folder = self._folder_of(step)
        with _explain_damage(folder):
            checksums = self._read_progress(folder).get(_SHARD_CHECKSUMS, {})
            for path in (folder / SHARDS).iterdir() if (folder / SHARDS).is_dir() else ():
                self._load_finite(path)
                if checksums and checksums.get(path.name) != file_checksum(path):
                    raise RunError(f"{SHARDS}/{path.name} differs from its checksum in progress.json")

    def _read_progress(self, folder: Path) -> dict[str, Any]:
        return check_json(_PROGRESS.read_json_object(folder / "progress.json", root=self._root))

    def weights(self, step: int) -> dict[str, Tensor]:
        """Load the weights of one checkpoint. Raises RunError if they are damaged."""
        self.finish()
        folder = self._folder_of(step)
        with _explain_damage(folder):
            return self._load_finite(folder / "model.safetensors")

    def candidates(self, progress: Progress, ema: Mapping[str, Tensor] | None) -> dict[str, dict[str, Tensor]]:
        """Return the last weights, the best by validation, the average of the last checkpoints (Vaswani et al., 2017,
        section 6.1), and the moving average.

        Checkpoints whose folder was deleted are left out; damaged ones too, with a warning.
        """
        found = {"last": self.weights(progress.step)}
        best = None if progress.best is None else progress.best.step
        steps = sorted({*progress.recent, *([] if best is None else [best])} & {*self.steps()})
        weights = {step: one for step in steps if (one := self._intact_weights(step)) is not None}
        if best in weights.keys() - {progress.step}:
            found["best"] = weights[best]
        recent = [weights[step] for step in progress.recent if step in weights]
        if len(recent) > 1:
            found[f"average of the last {len(recent)}"] = average_weights(recent)
        if ema is not None:
            found["moving average"] = dict(ema)
        return found

    def _intact_weights(self, step: int) -> dict[str, Tensor] | None:
        try:
            return self.weights(step)
        except RunError as error:
            self._rename_damaged(step, error, "The weights are selected and averaged without it")
            return None

    def _rename_damaged(self, step: int, error: RunError, consequence: str) -> None:
        """Rename a damaged checkpoint, so that it is no longer one, with a warning."""
        folder = self._folder_of(step)
        renamed = folder.with_name(f"{DAMAGED}{folder.name}")
        shutil.rmtree(renamed, ignore_errors=True)
        folder.rename(renamed)
        reason = str(error).removesuffix(_REMEDY)
        warn(f"{reason}. {consequence}, and the damaged one was renamed to {renamed.name}.", CheckpointWarning)

    def _folder_of(self, step: int) -> Path:
        return checkpoint_folder(self.folder, step)

    @property
    def _root(self) -> Path:
        """Run folder, below which no folder of a checkpoint may be a link."""
        return self.folder.parent

    def _remove_old(self, progress: Progress) -> None:
        earlier = [step for step in self._steps() if step < progress.step]
        resumable = {progress.step, *earlier[-1:]}
        kept = set(resumable)
        for one in (progress, progress.before_end or progress):
            kept |= set(one.recent[-self.keep :])
            if one.best is not None:
                kept.add(one.best.step)
        for step in self._steps():
            if step not in kept:
                self._remove(step)
            elif step not in resumable:  # the optimizer state is twice as large as the weights
                for name in ("optimizer.safetensors", "ema.safetensors"):
                    (self._folder_of(step) / name).unlink(missing_ok=True)
                shutil.rmtree(self._folder_of(step) / SHARDS, ignore_errors=True)

    def _remove(self, step: int) -> None:
        """Rename the folder before deleting it, so that an interrupted deletion leaves no broken checkpoint."""
        hidden = self.folder / f".{self._folder_of(step).name}.tmp"
        shutil.rmtree(hidden, ignore_errors=True)
        self._folder_of(step).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def average_weights(checkpoints: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Average each tensor, summed in float64."""
    return {
        name: (sum(weights[name].double() for weights in checkpoints) / len(checkpoints)).to(tensor.dtype)  # type: ignore[union-attr]
        for name, tensor in checkpoints[0].items()
    }


def update_ema(ema: Mapping[str, Tensor], weights: Mapping[str, Tensor], *, decay: float) -> dict[str, Tensor]:
    """Return the exponential moving average after one more step (Polyak and Juditsky, 1992)."""
    return {name: value.lerp(weights[name].to(value.device), 1 - decay) for name, value in ema.items()}


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


_REMEDY = "; train again in another folder"


@contextmanager
def _explain_damage(folder: Path) -> Iterator[None]:
    """Raise RunError with the first line of the root cause, and a remedy in place of its own."""
    try:
        yield
    except (OSError, ValueError, RunError) as error:
        cause = error.__cause__ or error
        reason = (str(cause).splitlines() or [type(cause).__name__])[0]
        raise RunError(f"{folder}: the checkpoint is damaged ({reason}){_REMEDY}") from error
