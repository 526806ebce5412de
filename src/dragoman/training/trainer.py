"""Training loop: step, log, validate, save, until the end.

`TrainingState` holds what changes during a run, `TrainingConfig` what does not. The validator is a parameter, so that
the loop does not depend on decoding or metrics.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn

from dragoman.data.batching.epochs import BatchStream
from dragoman.errors import ConfigError, DragomanError, TrainingError
from dragoman.models.weights import place_like, set_weights
from dragoman.training.callbacks import Callback, LogEvent, RollbackEvent, SaveEvent, StartEvent, ValidationEvent
from dragoman.training.checkpoint import BestValidation, Checkpoint, CheckpointStore, LossSums, Progress, update_ema
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup, WorkerLostError, gather_tensors, is_sharded
from dragoman.training.optimizers import Optimizer, optimizer_tensors, restore_optimizer, set_learning_rate
from dragoman.training.schedules import learning_rate_factor
from dragoman.training.step import B, LossFunction, StepResult, apply_gradients, compute_gradients, model_device

MAX_ROLLBACKS = 3


@dataclass(frozen=True)
class Validator:
    """Function that scores a model on the validation set, and the metric that decides."""

    validate: Callable[[nn.Module], Mapping[str, float]]
    metric: str
    higher_is_better: bool

    def is_better(self, scores: Mapping[str, float], best: Mapping[str, float] | None) -> bool:
        """Return whether `scores` are better than the best so far; NaN is never better."""
        new = scores[self.metric]
        if math.isnan(new):
            return False
        if best is None or math.isnan(best[self.metric]):
            return True
        return new > best[self.metric] if self.higher_is_better else new < best[self.metric]


class InterruptionError(DragomanError):
    """Training was interrupted; the checkpoint of `step` is on disk."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped after step {step}; everything is saved")
        self.step = step


def _describe_rows(rows: Sequence[int]) -> str:
    return f"examples {', '.join(map(str, rows[:5]))}{', …' if len(rows) > 5 else ''}"


@dataclass
class TrainingState(Generic[B]):
    """State of a run; `describe_rows` names the examples of a batch for messages."""

    model: nn.Module
    optimizer: Optimizer
    stream: BatchStream[B]
    checkpoints: CheckpointStore
    progress: Progress
    ema: dict[str, Tensor] | None = None
    describe_rows: Callable[[Sequence[int]], str] = _describe_rows
    validation_model: nn.Module | None = None
    """Unsharded copy of a sharded model, for validation."""


def total_steps(config: TrainingConfig, stream: BatchStream[Any]) -> int:
    """Return the number of steps of a training, assuming that all epochs have as many batches as the current one.

    Raises ConfigError if there are fewer batches than one step needs.
    """
    limits = [] if config.max_steps is None else [config.max_steps]
    if config.max_epochs is not None:
        batches = config.max_epochs * stream.batches_per_epoch()
        if batches < config.grad_accumulation:
            raise ConfigError(
                f"training.grad_accumulation = {config.grad_accumulation:,} batches per step, and this training has "
                f"{batches:,}; lower it, or training.batch_tokens"
            )
        limits.append(-(-batches // config.grad_accumulation))
    return min(limits)


def train(
    state: TrainingState[B],
    config: TrainingConfig,
    *,
    loss_function: LossFunction[Any, B],
    validator: Validator,
    callback: Callback,
    device: torch.device,
    interrupted: Callable[[], bool] = lambda: False,
    workers: WorkerGroup = SINGLE_WORKER,
) -> Progress:
    """Train until the end or until `interrupted` returns true, from the latest checkpoint if there is one.

    Every worker calls this; only the main worker's `callback` and `validator` are used. Raises InterruptionError after
    saving, TrainingError if the loss stays infinite or NaN, and WorkerLostError.
    """
    total = total_steps(config, state.stream)  # before resuming moves the stream
    _restore_or_start(state, config, workers)
    num_parameters = sum(parameter.numel() for parameter in state.model.parameters())
    callback(StartEvent(state.progress.step, total, num_parameters, str(device)))
    try:
        with workers.detect_lost_workers():
            _train_loop(state, config, loss_function, validator, callback, interrupted, total=total, workers=workers)
    except WorkerLostError:
        if workers.is_main and not is_sharded(state.model):
            _save(state, callback)  # a step changes nothing before all workers have finished their part
        raise
    finally:
        state.checkpoints.finish()
    return state.progress


def _train_loop(
    state: TrainingState[B],
    config: TrainingConfig,
    loss_function: LossFunction[Any, B],
    validator: Validator,
    callback: Callback,
    interrupted: Callable[[], bool],
    *,
    total: int,
    workers: WorkerGroup,
) -> None:
    clock = _Clock(state.progress.seconds)
    while not _is_finished(state.progress, config):
        began, epoch = clock.seconds, state.stream.position["epoch"]
        batches = [next(state.stream) for _ in range(config.grad_accumulation)]
        learning_rate = _learning_rate(config, state.progress, total)
        result = _step(state, config, batches, loss_function, learning_rate=learning_rate, workers=workers)
        if not result.is_finite:
            _roll_back(state, batches, callback, workers)
            continue
        clock.add_step(result.tokens, since=began)
        _advance(state, result, clock)
        finished = _is_finished(state.progress, config)
        if finished or state.progress.step % config.log_every == 0:
            _log(state, callback, clock, epoch=epoch, learning_rate=learning_rate, gradient_norm=result.gradient_norm)
        validated = finished or _is_validation_due(config, state, epoch)
        if validated:
            _validate_and_save(state, validator, callback, clock, workers=workers)
        if workers.any(interrupted()):
            if not validated:
                _save(state, callback, workers)
            raise InterruptionError(state.progress.step)


def _restore_or_start(state: TrainingState[Any], config: TrainingConfig, workers: WorkerGroup) -> None:
    """Restore the latest checkpoint, or write the first one, so that a rollback always finds one."""
    latest = _latest_checkpoint(state, workers)
    if latest is not None:
        _restore(state, latest)
        return
    if config.ema_decay is not None:
        state.ema = {name: parameter.detach().clone() for name, parameter in state.model.named_parameters()}
    state.progress = state.progress.replace(position=state.stream.position)
    _write_checkpoint(state, workers)


def _latest_checkpoint(state: TrainingState[Any], workers: WorkerGroup) -> Checkpoint | None:
    """Load the newest checkpoint; only the main worker knows when its asynchronous write has finished."""
    step = workers.broadcast(max(state.checkpoints.steps(), default=-1) if workers.is_main else None)
    return state.checkpoints.load(step) if step >= 0 else None


def _restore(state: TrainingState[Any], checkpoint: Checkpoint) -> None:
    set_weights(state.model, checkpoint.model, where=str(state.checkpoints.folder))
    shards = state.checkpoints.shards(checkpoint.progress.step)
    if shards is None:
        restore_optimizer(state.optimizer, state.model, checkpoint.optimizer)
    else:
        from dragoman.training.fsdp import read_shards

        read_shards(shards, state.model, state.optimizer)
    if checkpoint.ema is not None:
        parameters = dict(state.model.named_parameters())
        state.ema = {name: place_like(tensor, parameters[name]) for name, tensor in checkpoint.ema.items()}
    state.progress = checkpoint.progress
    state.stream.seek(checkpoint.progress.position)


def _snapshot(state: TrainingState[Any]) -> Checkpoint:
    """Gather the state of the training, except a sharded optimizer state."""
    tensors = {} if is_sharded(state.model) else optimizer_tensors(state.optimizer, state.model)
    ema = None if state.ema is None else gather_tensors(state.ema)
    return Checkpoint(state.progress, gather_tensors(dict(state.model.named_parameters())), tensors, ema)


def _write_checkpoint(state: TrainingState[Any], workers: WorkerGroup) -> None:
    """Write a checkpoint on the main worker; every worker writes its shard of a sharded optimizer state."""
    if not is_sharded(state.model):
        if workers.is_main:
            state.checkpoints.save(_snapshot(state))
        return
    from dragoman.training.fsdp import write_shards

    def write_own_shard(folder: Path | None) -> None:
        shared_folder = Path(workers.broadcast(None if folder is None else str(folder)))
        write_shards(shared_folder, state.model, state.optimizer)

    snapshot = _snapshot(state)
    if workers.is_main:
        state.checkpoints.save(snapshot, write_shards=write_own_shard)
    else:
        write_own_shard(None)


def _step(
    state: TrainingState[B],
    config: TrainingConfig,
    batches: list[B],
    loss_function: LossFunction[Any, B],
    *,
    learning_rate: float,
    workers: WorkerGroup,
) -> StepResult:
    state.model.train()
    set_learning_rate(state.optimizer, learning_rate)
    seeds = (config.seed, state.progress.step + 1)
    try:
        loss, nll, tokens = compute_gradients(
            state.model, batches, loss_function, seeds=seeds, precision=config.precision, workers=workers
        )
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"step {seeds[1]}: the memory of {model_device(state.model)} is too small for a batch of "
            f"{config.token_budget:,} tokens; train again with a lower training.batch_tokens, and raise "
            "training.grad_accumulation to keep the steps as large"
        ) from error
    norm = apply_gradients(state.model, state.optimizer, max_grad_norm=config.max_grad_norm)
    result = StepResult(loss=loss, negative_log_likelihood=nll, tokens=tokens, gradient_norm=norm)
    if state.ema is not None and config.ema_decay is not None and result.is_finite:
        weights = {name: parameter.detach() for name, parameter in state.model.named_parameters()}
        state.ema = update_ema(state.ema, weights, decay=config.ema_decay)
    return result


def _advance(state: TrainingState[Any], result: StepResult, clock: "_Clock") -> None:
    progress, sums = state.progress, state.progress.since_log
    state.progress = progress.replace(
        step=progress.step + 1,
        tokens=progress.tokens + result.tokens,
        position=state.stream.position,
        seconds=clock.seconds,
        since_log=LossSums(
            loss=sums.loss + result.loss,
            negative_log_likelihood=sums.negative_log_likelihood + result.negative_log_likelihood,
            tokens=sums.tokens + result.tokens,
        ),
    )


def _learning_rate(config: TrainingConfig, progress: Progress, total: int) -> float:
    peak = config.optimizer.learning_rate * progress.learning_rate_scale
    return peak * learning_rate_factor(config.schedule, progress.step + 1, total_steps=total)


def _roll_back(state: TrainingState[B], batches: list[B], callback: Callback, workers: WorkerGroup) -> None:
    """Restore the latest checkpoint with half the learning rate, at most `MAX_ROLLBACKS` times."""
    failed = state.progress.step + 1
    scale, count = state.progress.learning_rate_scale / 2, state.progress.rollbacks + 1
    rows = tuple(row for batch in batches for row in batch.rows.tolist())
    examples = state.describe_rows(rows)
    if count > MAX_ROLLBACKS:
        raise TrainingError(
            f"step {failed}: the loss is not finite, and {MAX_ROLLBACKS} rollbacks with half the learning rate did "
            f"not help. Check the texts of its batch ({examples}), or train again with a lower "
            "training.optimizer.learning_rate, a longer training.schedule.warmup or a lower training.max_grad_norm"
        )
    checkpoint = _latest_checkpoint(state, workers)
    assert checkpoint is not None, "the first checkpoint is written before the first step"
    progress = checkpoint.progress.replace(learning_rate_scale=scale, rollbacks=count)
    _restore(state, replace(checkpoint, progress=progress))
    callback(RollbackEvent(failed, rows, examples, state.progress.step, scale))


def _is_validation_due(config: TrainingConfig, state: TrainingState[Any], epoch_before: int) -> bool:
    if config.validate_every is not None and state.progress.step % config.validate_every == 0:
        return True
    epochs = config.validate_every_epochs
    return epochs is not None and state.stream.position["epoch"] // epochs > epoch_before // epochs


def _is_finished(progress: Progress, config: TrainingConfig) -> bool:
    if config.patience is not None and progress.stale_validations >= config.patience:
        return True
    if config.max_epochs is not None and int(progress.position["epoch"]) >= config.max_epochs:
        return True
    return config.max_steps is not None and progress.step >= config.max_steps


def _log(
    state: TrainingState[Any],
    callback: Callback,
    clock: "_Clock",
    *,
    epoch: int,
    learning_rate: float,
    gradient_norm: float,
) -> None:
    sums = state.progress.since_log
    event = LogEvent(
        step=state.progress.step,
        epoch=epoch,
        loss=sums.loss / sums.tokens,
        negative_log_likelihood=sums.negative_log_likelihood / sums.tokens,
        gradient_norm=gradient_norm,
        learning_rate=learning_rate,
        tokens_per_second=clock.speed(),
        seconds=clock.seconds,
    )
    callback(event)
    state.progress = state.progress.replace(since_log=LossSums())


def _validate_and_save(
    state: TrainingState[Any], validator: Validator, callback: Callback, clock: "_Clock", *, workers: WorkerGroup
) -> None:
    model, scores = _validation_model(state), None
    if workers.is_main:
        with torch.inference_mode():
            scores = dict(validator.validate(model))
        _record_validation(state, validator, callback, clock, scores)
        if not is_sharded(state.model):
            _save(state, callback, workers)  # before the broadcast, which fails if a worker is lost
    shared_scores = workers.broadcast(scores)
    if not workers.is_main:
        _record_validation(state, validator, callback, clock, shared_scores)
    if is_sharded(state.model):
        _save(state, callback, workers)


def _record_validation(
    state: TrainingState[Any], validator: Validator, callback: Callback, clock: "_Clock", scores: Mapping[str, float]
) -> None:
    progress = state.progress
    improved = validator.is_better(scores, progress.best.scores if progress.best else None)
    state.progress = progress.replace(
        best=BestValidation(step=progress.step, scores=scores) if improved else progress.best,
        stale_validations=0 if improved else progress.stale_validations + 1,
        recent=(*progress.recent, progress.step)[-state.checkpoints.keep :],
        seconds=clock.seconds,
    )
    callback(ValidationEvent(progress.step, int(progress.position["epoch"]), scores, improved, clock.seconds))


def _validation_model(state: TrainingState[Any]) -> nn.Module:
    """Return the model in evaluation mode, unsharded on the main worker; all workers must call this."""
    state.model.eval()
    if not is_sharded(state.model):
        return state.model
    weights = gather_tensors(dict(state.model.named_parameters()))
    if state.validation_model is None:
        return state.model
    set_weights(state.validation_model, weights)
    return state.validation_model.eval()


def _save(state: TrainingState[Any], callback: Callback, workers: WorkerGroup = SINGLE_WORKER) -> None:
    _write_checkpoint(state, workers)
    callback(SaveEvent(state.progress.step))


class _Clock:
    """Seconds of the whole run, resumed runs included, and speed of the steps since the last log."""

    def __init__(self, seconds_before: float) -> None:
        self._began = time.perf_counter() - seconds_before
        self._tokens, self._working = 0, 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def add_step(self, tokens: int, *, since: float) -> None:
        """Count a step that began at `since`; time between steps does not affect the speed."""
        self._tokens += tokens
        self._working += self.seconds - since

    def speed(self) -> float:
        """Return the tokens per second since the last call."""
        speed = self._tokens / self._working
        self._tokens, self._working = 0, 0.0
        return speed
