"""Who may watch a training: a file of metrics, TensorBoard, or several at once."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never, final

from dragoman.atomic import refused, write_atomically
from dragoman.errors import MissingExtraError
from dragoman.training.events import Chosen, Event, Learnt, Observer, RolledBack, Saved, Started, Updated, Validated


def all_of(observers: list[Observer]) -> Observer:
    """One observer that tells several."""

    def observe(event: Event) -> None:
        for observer in observers:
            observer(event)

    return observe


@final
class MetricsFile:
    """One JSON line an event. A run that goes on from update `n` first drops what came after its checkpoint at `n`.

    So the file of a run that was killed and went on is that of one that never was, times aside.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        match event:
            case Started(update=update):
                if not self._rewind(update):
                    self._write("started", event)
            case Updated():
                self._write("updated", event)
            case Validated():
                self._write("validated", event)
            case RolledBack():
                self._write("rolled_back", event)
            case Chosen():
                self._write("chosen", event)
            case Saved() | Learnt():
                pass
            case _:
                assert_never(event)

    def _write(self, name: str, event: Event) -> None:
        fields = {key: _rounded(value) for key, value in dataclasses.asdict(event).items()}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"event": name, **fields}) + "\n")
                file.flush()
                os.fsync(file.fileno())  # a checkpoint must never be on disk without the lines before it
        except OSError as error:
            raise refused(self.path, error) from error

    def _rewind(self, update: int) -> bool:
        """Drop the lines after `update`, those of the choice of weights, and torn ones; whether any line is left."""
        if not self.path.exists():
            return False
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line for line in lines if (reached := _update_of(line)) is not None and reached <= update]
        write_atomically(self.path, "".join(f"{line}\n" for line in kept))
        return bool(kept)


@final
class TensorBoard:
    """Scalars for TensorBoard; the library is an extra. A run that goes on hides what came after its checkpoint."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError(feature="TensorBoard", extra="tensorboard") from error
        self._open = SummaryWriter
        self._folder = str(folder)

    def __call__(self, event: Event) -> None:
        match event:
            case Started(update=update):
                self._writer = self._open(self._folder, purge_step=update + 1 if update else None)
            case Updated():
                values = {"loss": event.loss, "learning_rate": event.learning_rate, "speed": event.tokens_per_second}
                self._scalars("training", values, event.update)
            case Validated():
                self._scalars("validation", event.scores, event.update)
            case Saved() | RolledBack() | Learnt():
                self._writer.flush()
            case Chosen():
                self._writer.close()
            case _:
                assert_never(event)

    def _scalars(self, group: str, values: Mapping[str, float], update: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, update)


def _update_of(line: str) -> int | None:
    """The update that a line speaks of; None for one to be written again, or torn when the power went."""
    try:
        read = json.loads(line)
        return None if read["event"] == "chosen" else int(read.get("failed_update", read["update"]))
    except (ValueError, TypeError, KeyError):
        return None


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    return value
