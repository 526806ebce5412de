"""The loop: update, report, validate, keep, until the end.

The loop knows neither search nor scores of strings; `validate` is handed in. What moves during a run lies in `Run`,
what stays lies in `TrainingConfig`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, assert_never, runtime_checkable

import torch
from torch import Tensor, nn

from dragoman.data.batching import Batch
from dragoman.errors import DragomanError, TrainingError
from dragoman.models.weights import set_weights, weights
from dragoman.training.checkpoint import Best, Checkpoint, Checkpoints, Progress, moved_average
from dragoman.training.config import Epochs, Span, TrainingConfig, Updates
from dragoman.training.events import Observer, RolledBack, Saved, Started, Updated, Validated
from dragoman.training.optimisers import Optimiser, optimiser_tensors, restore_optimiser, set_learning_rate
from dragoman.training.schedules import factor
from dragoman.training.update import Objective, Step, apply_gradients, compute_gradients

MOST_ROLLBACKS = 3


@runtime_checkable
class Stream(Protocol):
    """Batches without end, with a place to come back to."""

    @property
    def position(self) -> dict[str, int]: ...

    def seek(self, position: Mapping[str, int]) -> None: ...

    def batches_per_epoch(self) -> int: ...

    def __next__(self) -> Batch: ...


@dataclass(frozen=True)
class Judge:
    """How a training is validated: scores by name, and the one that decides."""

    validate: Callable[[nn.Module], Mapping[str, float]]
    deciding: str
    higher_is_better: bool

    def better(self, scores: Mapping[str, float], best: Mapping[str, float] | None) -> bool:
        if best is None:
            return True
        new, old = scores[self.deciding], best[self.deciding]
        return new > old if self.higher_is_better else new < old


class InterruptionError(DragomanError):
    """A person or the machine asked for an end; the checkpoint at `update` is on disk."""

    def __init__(self, update: int) -> None:
        super().__init__(f"stopped after update {update}; everything is saved")
        self.update = update


@dataclass
class Run:
    """What moves."""

    model: nn.Module
    optimiser: Optimiser
    stream: Stream
    checkpoints: Checkpoints
    progress: Progress
    average: dict[str, Tensor] | None = None


def total_updates(length: Span, stream: Stream, accumulate: int) -> int:
    """The length of a training in updates; for epochs, as many as the first epoch has in each."""
    match length:
        case Updates(count=count):
            return count
        case Epochs(count=count):
            return max(1, count * stream.batches_per_epoch() // accumulate)
        case _:
            assert_never(length)


def train(
    run: Run,
    config: TrainingConfig,
    *,
    objective: Objective,
    judge: Judge,
    observe: Observer,
    device: torch.device,
    interrupted: Callable[[], bool] = lambda: False,
) -> Progress:
    """Train until the end or until `interrupted`; goes on from the latest checkpoint where there is one.

    Raises InterruptionError after saving, and TrainingError where the loss stays not finite.
    """
    total = total_updates(config.length, run.stream, config.accumulate)
    _begin(run, config)
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    observe(Started(run.progress.update, total, parameters, str(device)))
    meter = _Meter(run.progress.seconds)
    while not _ended(run.progress, config, total):
        epoch = run.stream.position["epoch"]
        batches = [next(run.stream).to(device) for _ in range(config.accumulate)]
        rate = _rate(config, run.progress, total)
        step = _update(run, config, batches, objective, rate)
        if not step.finite:
            _roll_back(run, batches, observe)
            continue
        run.progress = run.progress.but(
            update=run.progress.update + 1,
            tokens=run.progress.tokens + step.tokens,
            position=run.stream.position,
            seconds=meter.seconds,
        )
        meter.add(step)
        if run.progress.update % config.report == 0:
            observe(meter.report(run.progress, epoch=epoch, rate=rate))
        if _due(config.interval, run, epoch) or _ended(run.progress, config, total):
            _validate_and_keep(run, judge, observe, meter)
        elif interrupted():
            _save(run, observe)
        if interrupted():
            raise InterruptionError(run.progress.update)
    return run.progress


def _begin(run: Run, config: TrainingConfig) -> None:
    """Go on from the latest checkpoint, or write the first one, so that there is always one to go back to."""
    latest = run.checkpoints.latest()
    if latest is not None:
        _restore(run, latest)
        return
    if config.moving_average is not None:
        run.average = {name: tensor.clone() for name, tensor in weights(run.model).items()}
    run.progress = run.progress.but(position=run.stream.position)
    run.checkpoints.save(_snapshot(run))


def _restore(run: Run, checkpoint: Checkpoint) -> None:
    set_weights(run.model, checkpoint.model)
    restore_optimiser(run.optimiser, run.model, checkpoint.optimiser)
    run.average = checkpoint.average
    run.progress = checkpoint.progress
    run.stream.seek(checkpoint.progress.position)


def _snapshot(run: Run) -> Checkpoint:
    tensors = optimiser_tensors(run.optimiser, run.model)
    return Checkpoint(run.progress, weights(run.model), tensors, run.average)


def _update(run: Run, config: TrainingConfig, batches: list[Batch], objective: Objective, rate: float) -> Step:
    run.model.train()
    set_learning_rate(run.optimiser, rate)
    seeds = (config.seed, run.progress.update + 1)
    loss, nll, tokens = compute_gradients(
        run.model,  # type: ignore[arg-type]  # an nn.Module that is a Learner; the two cannot be written as one type
        batches,
        objective,
        seeds=seeds,
        precision=config.precision,
    )
    norm = apply_gradients(run.model, run.optimiser, clip=config.clip)
    step = Step(loss=loss, negative_log_likelihood=nll, tokens=tokens, gradient_norm=norm)
    if run.average is not None and config.moving_average is not None and step.finite:
        run.average = moved_average(run.average, weights(run.model), decay=config.moving_average)
    return step


def _rate(config: TrainingConfig, progress: Progress, total: int) -> float:
    peak = config.optimiser.learning_rate * progress.rate_scale
    return peak * factor(config.schedule, progress.update + 1, total=total)


def _roll_back(run: Run, batches: list[Batch], observe: Observer) -> None:
    """Back to the latest checkpoint with half the learning rate, at most three times."""
    failed, scale, count = run.progress.update + 1, run.progress.rate_scale / 2, run.progress.rollbacks + 1
    rows = tuple(int(row) for batch in batches for row in batch.rows)
    if count > MOST_ROLLBACKS:
        raise TrainingError(
            f"update {failed}: the loss is not finite, and going back with half the learning rate "
            f"{MOST_ROLLBACKS} times did not help. Look at the examples of this batch "
            f"(numbers {', '.join(map(str, rows[:5]))}, …), or lower training.optimiser.learning_rate, "
            "lengthen training.schedule.warmup or set training.clip"
        )
    checkpoint = run.checkpoints.latest()
    assert checkpoint is not None, "the first checkpoint is written before the first update"
    _restore(run, replace(checkpoint, progress=checkpoint.progress.but(rate_scale=scale, rollbacks=count)))
    observe(RolledBack(failed, rows, run.progress.update, scale))


def _due(interval: Span, run: Run, epoch_before: int) -> bool:
    match interval:
        case Updates(count=count):
            return run.progress.update % count == 0
        case Epochs(count=count):
            epoch = run.stream.position["epoch"]
            return epoch // count > epoch_before // count
        case _:
            assert_never(interval)


def _ended(progress: Progress, config: TrainingConfig, total: int) -> bool:
    if config.patience is not None and progress.waited >= config.patience:
        return True
    if isinstance(config.length, Epochs):
        return int(progress.position["epoch"]) >= config.length.count
    return progress.update >= total


def _validate_and_keep(run: Run, judge: Judge, observe: Observer, meter: "_Meter") -> None:
    run.model.eval()
    with torch.inference_mode():
        scores = dict(judge.validate(run.model))
    progress = run.progress
    improved = judge.better(scores, progress.best.scores if progress.best else None)
    run.progress = progress.but(
        best=Best(update=progress.update, scores=scores) if improved else progress.best,
        waited=0 if improved else progress.waited + 1,
        regular=(*progress.regular, progress.update)[-run.checkpoints.keep :],
        seconds=meter.seconds,
    )
    observe(Validated(progress.update, int(progress.position["epoch"]), scores, improved, meter.seconds))
    _save(run, observe)
    meter.forgive()


def _save(run: Run, observe: Observer) -> None:
    run.checkpoints.save(_snapshot(run))
    observe(Saved(run.progress.update))


class _Meter:
    """Sums since the last report, and the clock of the whole run over all its sittings."""

    def __init__(self, seconds_before: float) -> None:
        self._began = time.perf_counter() - seconds_before
        self._loss = self._nll = self._norm = 0.0
        self._tokens = 0
        self._since = self._last = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def add(self, step: Step) -> None:
        self._last = time.perf_counter()
        self._loss += step.loss
        self._nll += step.negative_log_likelihood
        self._tokens += step.tokens
        self._norm = step.gradient_norm

    def forgive(self) -> None:
        """The time since the last update went into validation and is not counted against the speed of updates."""
        self._since += time.perf_counter() - self._last

    def report(self, progress: Progress, *, epoch: int, rate: float) -> Updated:
        now = time.perf_counter()
        event = Updated(
            update=progress.update,
            epoch=epoch,
            loss=self._loss / self._tokens,
            negative_log_likelihood=self._nll / self._tokens,
            gradient_norm=self._norm,
            learning_rate=rate,
            tokens_per_second=self._tokens / (now - self._since),
            seconds=self.seconds,
        )
        self._reset()
        return event

    def _reset(self) -> None:
        self._loss = self._nll = self._norm = 0.0
        self._tokens = 0
        self._since = self._last = time.perf_counter()
