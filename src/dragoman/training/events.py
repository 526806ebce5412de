"""What a training tells those who watch it. Observers may not change anything; they get facts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Started:
    """A training begins, or goes on at `update`."""

    update: int
    total: int
    parameters: int
    device: str


@dataclass(frozen=True)
class Updated:
    """A report over the updates since the one before; losses are per target token, in nats."""

    update: int
    epoch: int
    loss: float
    negative_log_likelihood: float
    gradient_norm: float
    learning_rate: float
    tokens_per_second: float
    seconds: float


@dataclass(frozen=True)
class Validated:
    """Scores on the validation set."""

    update: int
    epoch: int
    scores: Mapping[str, float]
    improved: bool
    seconds: float


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written, or is being written behind the training."""

    update: int


@dataclass(frozen=True)
class RolledBack:
    """The loss or gradient of `rows` was not finite; training goes back to `update` with a smaller learning rate."""

    failed_update: int
    rows: tuple[int, ...]
    examples: str
    update: int
    rate_scale: float


@dataclass(frozen=True)
class Learnt:
    """All updates are done. What is left, the choice of the weights and the last scores, may take minutes."""

    update: int


@dataclass(frozen=True)
class Chosen:
    """The weights that training ends with, and what each candidate scored on the validation set."""

    update: int
    name: str
    candidates: Mapping[str, Mapping[str, float]]


Event = Started | Updated | Validated | Saved | RolledBack | Learnt | Chosen
Observer = Callable[[Event], None]
