"""Plan of a training: memory by part, the batch tokens that fit, operations, time and cost, from its profile.

The time of a step is linear in the cost of its batches, and the peak memory is linear in the positions of the largest
batch. The configuration says how often the training validates, saves and compares weights.
"""

import math
from bisect import bisect_right
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, final

from dragoman.errors import ConfigError
from dragoman.profiling.measured_memory import format_bytes
from dragoman.profiling.time_and_memory_per_batch import LinearModel, fit_nonnegative
from dragoman.profiling.training_profile import Profile
from dragoman.training.config import TrainingConfig

RESERVE: Final = 0.1
"""Fraction of the memory that is left to other programs and to what the profile missed."""
TOKEN_MULTIPLE: Final = 64
"""Batch tokens are multiples of this."""
MANY_VALIDATIONS: Final = 5
"""More validations than this, and the best weights are seldom the last ones."""


@final
@dataclass(frozen=True)
class MemoryPlan:
    """Peak memory by part, in bytes, of all processes of a machine or of a GPU; the parts add up to `total`."""

    program: int
    """Python, PyTorch and the code."""
    data: int
    """The part of the corpus that is read, and the tokenizer."""
    weights: int
    gradients: int
    optimizer: int
    ema: int
    activations: int
    """What a step or a search needs in addition, and what the allocator keeps of it."""
    total: int


@final
@dataclass(frozen=True)
class TimePlan:
    """Seconds by part."""

    start: float
    """Programs, data, tokenizer and model before the first step, and the end of the processes."""
    steps: float
    validations: float
    checkpoints: float
    selection: float
    """Validation of the candidates for the final weights."""
    scores: float

    @property
    def total(self) -> float:
        return sum(getattr(self, field.name) for field in fields(self))


@final
@dataclass(frozen=True)
class Plan:
    """Memory, time and cost of a training on a number of devices."""

    parameters: int
    workers: int
    devices: int
    memory: MemoryPlan
    available: int
    """Bytes of memory per device."""
    batch_tokens: int
    """As configured."""
    max_batch_tokens: int
    """Largest batch that fits."""
    steps: int
    steps_per_epoch: float
    tokens: float
    """Predictions that the loss is computed on."""
    flops: float
    utilization: float
    """Operations of a step divided by the operations of large matrix products in the same time."""
    time: TimePlan
    cost: float | None
    """Price of all device hours."""
    data_summary: str
    data_notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return self.batch_tokens <= self.max_batch_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        tree = asdict(self) | {"fits": self.fits}
        tree["time"]["total"] = self.time.total
        return tree


def build_plan(
    profile: Profile, config: TrainingConfig, *, available: int, devices: int = 1, price: float | None = None
) -> Plan:
    """Plan a profiled training; `price` is per device hour. Raises ConfigError if not even its smallest batch fits."""
    timed = profile.timed_steps
    step_time = fit_nonnegative([features for features, _ in timed], [seconds for _, seconds in timed])
    step_seconds = step_time.predict([feature / devices for feature in profile.step_cost.features])
    time = plan_time(profile, config, step_seconds=step_seconds)
    return Plan(
        parameters=profile.parameters,
        workers=profile.num_workers,
        devices=devices,
        memory=plan_memory(profile, config, devices=devices),
        available=available,
        batch_tokens=config.token_budget,
        max_batch_tokens=max_batch_tokens(profile, config, available=available, devices=devices),
        steps=profile.steps,
        steps_per_epoch=profile.steps_per_epoch,
        tokens=profile.step_cost.predictions * profile.steps,
        flops=profile.step_flops * profile.steps,
        utilization=profile.step_flops / step_seconds / (profile.peak_flops * devices),
        time=time,
        cost=None if price is None else price * devices * time.total / 3600,
        data_summary=profile.data_summary,
        data_notes=profile.data_notes,
    )


def plan_time(profile: Profile, config: TrainingConfig, *, step_seconds: float) -> TimePlan:
    """Return the seconds of a whole training; patience may end it earlier."""
    seconds, epochs = profile.seconds, count_epochs(profile.steps, profile.steps_per_epoch, config)
    validations = count_validations(profile.steps, profile.steps_per_epoch, config)
    names = ("start", "data", "workers", "setup", "broadcast", "checkpoint", "end")
    return TimePlan(
        start=sum(seconds.get(name, 0.0) for name in names) + seconds["epoch"] * max(0.0, math.ceil(epochs) - 1),
        steps=step_seconds * profile.steps,
        validations=validations * seconds["validation"],
        checkpoints=validations * seconds["checkpoint"],
        selection=count_candidates(validations, config) * seconds["selection"],
        scores=sum(profile.score_seconds.values()) + seconds["sample"],
    )


def count_validations(steps: int, steps_per_epoch: float, config: TrainingConfig) -> int:
    """Return how often a training validates, the end included."""
    by_steps = 0 if config.validate_every is None else math.ceil(steps / config.validate_every)
    if config.validate_every_epochs is None:
        return by_steps
    epochs = count_epochs(steps, steps_per_epoch, config)
    return max(1, by_steps, math.ceil(epochs / config.validate_every_epochs - 1e-9))


def count_epochs(steps: int, steps_per_epoch: float, config: TrainingConfig) -> float:
    """Return the epochs of a training; with `max_epochs`, the last step may have fewer batches."""
    if config.max_steps is None and config.max_epochs is not None:
        return config.max_epochs
    return steps / steps_per_epoch


def count_candidates(validations: int, config: TrainingConfig) -> int:
    """Return how many candidates the selection validates: the last, the best and averaged weights, and the EMA."""
    averaged = validations > 1 and config.keep_checkpoints > 1
    return 1 + (validations > MANY_VALIDATIONS) + averaged + (config.ema_decay is not None)


def plan_memory(profile: Profile, config: TrainingConfig, *, devices: int = 1) -> MemoryPlan:
    """Return the peak memory by part on each of the devices that share every batch."""
    processes = 1 + len(profile.worker_peaks)
    growth = expected_growth(profile)
    workers = sum(profile.worker_peaks) + growth * len(profile.worker_peaks)
    training = profile.peak_bytes + growth + workers
    if devices > 1:
        training = round(fit_memory(profile, config).predict(config.token_budget // devices))
    parts = {"program": profile.program_bytes, "data": profile.data_bytes, **asdict(profile.tensors)}
    known = processes * sum(parts.values())
    total = max(training, _selection_bytes(profile, config) + workers)
    return MemoryPlan(
        **{name: processes * size for name, size in parts.items()},
        activations=max(0, total - known),
        total=max(total, known),
    )


def expected_growth(profile: Profile) -> int:
    """Extrapolate the memory growth of a process from the profiled steps to the whole training."""
    return round(profile.memory_growth * max(0.0, math.log(profile.steps / max(1, profile.whole_steps))))


def _selection_bytes(profile: Profile, config: TrainingConfig) -> int:
    """Return the memory of the main worker while it selects among the weights of several checkpoints."""
    tensors, validations = profile.tensors, count_validations(profile.steps, profile.steps_per_epoch, config)
    loaded = count_candidates(validations, config) + min(config.keep_checkpoints, validations)
    fixed = profile.program_bytes + profile.data_bytes + tensors.total - tensors.gradients
    return fixed + loaded * tensors.weights


@final
@dataclass(frozen=True)
class MemoryModel:
    """Memory of all processes of a machine, or of a GPU, by batch tokens."""

    main: LinearModel
    """Memory of the main worker during steps."""
    validation_bytes: int
    """Peak memory of the main worker outside of steps."""
    worker_bytes: int
    """Memory of the other workers together, with batches of `profiled_tokens`."""
    workers: int
    profiled_tokens: int

    def predict(self, tokens: int) -> float:
        """Return the bytes needed for batches of `tokens` tokens."""
        [slope] = self.main.slopes
        workers = self.worker_bytes + (self.workers - 1) * slope * (tokens - self.profiled_tokens)
        return max(self.main.predict([tokens]), self.validation_bytes) + workers

    def max_tokens(self, available: float, *, limit: int) -> int:
        """Return the largest batch up to `limit` tokens that fits into the memory, 0 if none does."""
        sizes = range(TOKEN_MULTIPLE, limit + 1, TOKEN_MULTIPLE)
        return TOKEN_MULTIPLE * bisect_right(sizes, available, key=self.predict)


def fit_memory(profile: Profile, config: TrainingConfig) -> MemoryModel:
    """Fit the memory to the levels of the profile."""
    largest, growth = profile.memory_levels[-1], expected_growth(profile)
    tokens = [[level.positions / largest.positions * config.token_budget] for level in profile.memory_levels]
    line = fit_nonnegative(tokens, [float(level.bytes) for level in profile.memory_levels])
    return MemoryModel(
        main=LinearModel(line.intercept + growth, line.slopes),
        validation_bytes=profile.peak_bytes + growth if profile.peak_bytes > largest.bytes else 0,
        worker_bytes=sum(profile.worker_peaks) + growth * len(profile.worker_peaks),
        workers=1 + len(profile.worker_peaks),
        profiled_tokens=round(largest.fraction * config.token_budget),
    )


def max_batch_tokens(profile: Profile, config: TrainingConfig, *, available: int, devices: int = 1) -> int:
    """Return the largest batch, in tokens, that fits into the memory of all devices, which share it.

    The size of the corpus limits it too. Raises ConfigError if no batch fits.
    """
    memory, cost = fit_memory(profile, config), profile.step_cost
    corpus = round(max(cost.source_positions, cost.target_positions) * profile.steps_per_epoch)
    limit = _round_up(max(corpus, config.token_budget))
    tokens = devices * memory.max_tokens((1 - RESERVE) * available, limit=_round_up(limit / devices))
    if not tokens:
        needed = format_bytes(memory.predict(TOKEN_MULTIPLE) / (1 - RESERVE))
        raise ConfigError(
            f"{format_bytes(available)} of memory is too small for any batch: about {needed} are needed. Choose a "
            "smaller model, fewer workers (training.num_workers), or a larger machine."
        )
    return tokens


def _round_up(tokens: float) -> int:
    return math.ceil(tokens / TOKEN_MULTIPLE) * TOKEN_MULTIPLE
