"""Training events, and callbacks that write them to a metrics file or to TensorBoard.

Callbacks receive facts and must not change the training.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, assert_never, final

from dragoman.atomic_files import append_line, write_atomically
from dragoman.errors import MissingExtraError, RunError
from dragoman.untrusted_files import MEBIBYTE, FileKind

METRICS = FileKind(32 * MEBIBYTE, error=RunError)
"""File with a line for each event; 200,000 events take this size."""


@dataclass(frozen=True)
class StartEvent:
    """Training starts, or resumes at `step`."""

    step: int
    total_steps: int
    num_parameters: int
    device: str


@dataclass(frozen=True)
class StepEvent:
    """A step is done."""

    step: int


@dataclass(frozen=True)
class LogEvent:
    """Means over the steps since the previous log; losses are per target token, in nats."""

    step: int
    epoch: int
    loss: float
    negative_log_likelihood: float
    gradient_norm: float
    learning_rate: float
    tokens_per_second: float
    seconds: float


@dataclass(frozen=True)
class ValidationEvent:
    """Scores on the validation set."""

    step: int
    epoch: int
    scores: Mapping[str, float]
    improved: bool
    seconds: float


@dataclass(frozen=True)
class SaveEvent:
    """A checkpoint was written, or its asynchronous write was started."""

    step: int


@dataclass(frozen=True)
class RollbackEvent:
    """The loss or gradient of `rows` was not finite; training resumes at `step` with a lower learning rate."""

    failed_step: int
    rows: tuple[int, ...]
    examples: str
    step: int
    learning_rate_scale: float


@dataclass(frozen=True)
class EndEvent:
    """The last step is done. Selecting the weights and scoring the test sets may still take minutes."""

    step: int


@dataclass(frozen=True)
class CandidateEvent:
    """A candidate for the final weights, the `number`th of several, is about to be validated."""

    step: int
    name: str
    number: int
    count: int


@dataclass(frozen=True)
class SelectionEvent:
    """The weights selected at the end of training, and the validation scores of each candidate."""

    step: int
    selected: str
    candidates: Mapping[str, Mapping[str, float]]


Event = (
    StartEvent
    | StepEvent
    | LogEvent
    | ValidationEvent
    | SaveEvent
    | RollbackEvent
    | EndEvent
    | CandidateEvent
    | SelectionEvent
)
Callback = Callable[[Event], None]
EVENT_NAMES: Final[Mapping[type, str]] = {
    StartEvent: "start",
    LogEvent: "log",
    ValidationEvent: "validation",
    RollbackEvent: "rollback",
    SelectionEvent: "selection",
}
"""Names in the metrics file, which leaves other events out."""


def combine_callbacks(callbacks: list[Callback]) -> Callback:
    """Return one callback that calls each of `callbacks`."""

    def callback(event: Event) -> None:
        for each in callbacks:
            each(event)

    return callback


@final
class JsonlCallback:
    """Write one JSON line per event.

    A run resumed at step `n` first drops the lines after step `n`. Times apart, the file of an interrupted run equals
    that of an uninterrupted one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        name, resumed = EVENT_NAMES.get(type(event)), isinstance(event, StartEvent) and self._rewind(event.step)
        if name is None or resumed:
            return
        fields = {key: _round(value) for key, value in dataclasses.asdict(event).items()}
        append_line(self.path, json.dumps({"event": name, **fields}))  # on disk before the next checkpoint

    def _rewind(self, step: int) -> bool:
        """Drop incomplete lines, weight selections and lines after `step`; return whether any line is left."""
        if not os.path.lexists(self.path):
            return False
        with METRICS.open(self.path) as file:
            kept = [line for line in file if (reached := _step_of(line)) is not None and reached <= step]
        write_atomically(self.path, b"".join(line.rstrip() + b"\n" for line in kept))
        return bool(kept)


def require_tensorboard() -> Callable[..., Any]:
    """Return the class that writes events. Raises MissingExtraError if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError(feature="TensorBoard", extra="tensorboard") from error
    return SummaryWriter


@final
class TensorBoardCallback:
    """Write scalars for TensorBoard, an optional dependency. A resumed run hides what follows its checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._open = require_tensorboard()
        self._folder = str(folder)

    def __call__(self, event: Event) -> None:
        match event:
            case StartEvent(step=step):
                self._writer = self._open(self._folder, purge_step=step + 1 if step else None)
            case LogEvent():
                values = {"loss": event.loss, "learning_rate": event.learning_rate, "speed": event.tokens_per_second}
                self._scalars("training", values, event.step)
            case ValidationEvent():
                self._scalars("validation", event.scores, event.step)
            case SaveEvent() | RollbackEvent() | EndEvent():
                self._writer.flush()
            case SelectionEvent():
                self._writer.close()
            case StepEvent() | CandidateEvent():
                pass
            case _:
                assert_never(event)

    def _scalars(self, group: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)


def _step_of(line: bytes) -> int | None:
    """Return the step of a line; None for a weight selection, which is repeated, and for an incomplete line."""
    if not line.startswith(b'{"event": '):
        return None
    try:
        fields = json.loads(line)
        return None if fields["event"] == "selection" else int(fields.get("failed_step", fields["step"]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _round(inner) for key, inner in value.items()}
    return value


class TrainingReporter(Protocol):
    """Receiver of what happens around the training loop."""

    def status(self) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context in which status messages are shown."""
        ...

    def show_choices(self, choices: list[Any], *, device: str) -> None: ...

    def show_data(self, data: Any) -> None: ...

    def show_line(self, text: str) -> None: ...

    def show_estimate(self, seconds: float) -> None: ...

    def show_environment_changes(self, changes: list[str]) -> None: ...

    def callback(self, unit: str) -> AbstractContextManager[Callback | None]:
        """Return a context in which training events are shown; `unit` is the unit of the speed."""
        ...

    def interruption(self) -> AbstractContextManager[Callable[[], bool]]:
        """Return a context with a function that is true when the training should stop."""
        ...


def _ignore(*_: object, **__: object) -> None: ...


@final
class SilentReporter:
    """Reporter that shows nothing and never interrupts."""

    show_choices = show_data = show_line = show_estimate = staticmethod(_ignore)
    show_environment_changes = staticmethod(_ignore)
    status = staticmethod(lambda: nullcontext(_ignore))
    callback = staticmethod(lambda _: nullcontext(None))
    interruption = staticmethod(lambda: nullcontext(lambda: False))
