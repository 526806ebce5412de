"""Who may watch a training: a file of metrics, TensorBoard, or several at once."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never, final

from dragoman.errors import MissingExtraError
from dragoman.files import write_atomically
from dragoman.training.events import Chosen, Event, Observer, RolledBack, Saved, Started, Updated, Validated


def all_of(observers: list[Observer]) -> Observer:
    """One observer that tells several."""

    def observe(event: Event) -> None:
        for observer in observers:
            observer(event)

    return observe


@final
class MetricsFile:
    """One JSON line an event. A run that goes on from update `n` first drops the lines after `n`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        match event:
            case Started(update=update):
                self._rewind(update)
                self._write("started", event)
            case Updated():
                self._write("updated", event)
            case Validated():
                self._write("validated", event)
            case RolledBack():
                self._write("rolled_back", event)
            case Chosen():
                self._write("chosen", event)
            case Saved():
                pass
            case _:
                assert_never(event)

    def _write(self, name: str, event: Event) -> None:
        fields = {key: _rounded(value) for key, value in dataclasses.asdict(event).items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": name, **fields}) + "\n")

    def _rewind(self, update: int) -> None:
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if (read := _read(line)) is not None and read["update"] <= update]
        write_atomically(self.path, "".join(f"{line}\n" for line in kept))


@final
class TensorBoard:
    """Scalars for TensorBoard; the library is an extra."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError(feature="TensorBoard", extra="tensorboard") from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, event: Event) -> None:
        match event:
            case Updated():
                values = {"loss": event.loss, "learning_rate": event.learning_rate, "speed": event.tokens_per_second}
                self._scalars("training", values, event.update)
            case Validated():
                self._scalars("validation", event.scores, event.update)
            case Started() | Saved() | RolledBack() | Chosen():
                self.writer.flush()
            case _:
                assert_never(event)

    def _scalars(self, group: str, values: Mapping[str, float], update: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(f"{group}/{name}", value, update)


def _read(line: str) -> dict[str, Any] | None:
    """A line of metrics; None for one that was torn when the power went."""
    try:
        read: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return read


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    return value
