"""Training loop: step, log, validate, save, until the end.

`TrainingState` holds what changes during a run, `TrainingConfig` what does not. The validator is a parameter, so that
the loop does not depend on decoding or metrics.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, final

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from dragoman.data.batching.batch_streams import BatchStream
from dragoman.errors import ConfigError, DragomanError, TrainingError
from dragoman.models.weight_storage import check_tensors, place_like, set_weights
from dragoman.training.callbacks import (
    Callback,
    CandidateEvent,
    LogEvent,
    RollbackEvent,
    SaveEvent,
    SelectionEvent,
    StartEvent,
    StepEvent,
    ValidationEvent,
)
from dragoman.training.checkpoint import BestValidation, Checkpoint, CheckpointStore, LossSums, Progress, update_ema
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup, WorkerLostError, gather_tensors, is_sharded
from dragoman.training.fsdp import read_shards, write_shards
from dragoman.training.optimizers import (
    Optimizer,
    check_optimizer_tensors,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rate,
)
from dragoman.training.schedules import learning_rate_factor
from dragoman.training.step import B, LossFunction, apply_gradients, compute_gradients, model_device

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


@contextmanager
def interruptible(interrupted: Callable[[], bool], step: int) -> Iterator[None]:
    """Raise InterruptionError before the next layer of any network once `interrupted` returns true, and at the end."""

    def check(*_: object) -> None:
        if interrupted():
            raise InterruptionError(step)

    handle = register_module_forward_pre_hook(check)
    try:
        yield
    finally:
        handle.remove()
    check()


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
    resumed: Progress = field(default_factory=Progress)
    """Progress of the checkpoint that this process continued from."""


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
    sharded = is_sharded(state.model)
    trainer = _Trainer(state, config, loss_function, validator, callback, workers, total, sharded)
    trainer.restore_or_start()
    num_parameters = sum(parameter.numel() for parameter in state.model.parameters())
    callback(StartEvent(state.progress.step, total, num_parameters, str(device)))
    try:
        with workers.detect_lost_workers():
            trainer.run(interrupted)
    except WorkerLostError:
        if workers.is_main and not sharded:
            trainer.save()  # a step changes nothing before all workers have finished their part
        raise
    finally:
        state.checkpoints.finish()
    return state.progress


def select_weights(
    state: TrainingState[Any],
    validator: Validator,
    *,
    interrupted: Callable[[], bool] = lambda: False,
    callback: Callback = lambda _: None,
) -> tuple[dict[str, Tensor], SelectionEvent]:
    """Score every candidate on the validation set, and load the best into the model, in evaluation mode.

    Return its weights and the scores of all. `callback` learns of each candidate. Raises InterruptionError once
    `interrupted` returns true, before the next layer of a network computes.
    """
    state.model.eval()
    found = state.checkpoints.candidates(state.progress, state.ema)
    scores: dict[str, Mapping[str, float]] = {}
    best = next(iter(found))
    for number, (name, tensors) in enumerate(found.items(), start=1):
        callback(CandidateEvent(state.progress.step, name, number, len(found)))
        set_weights(state.model, tensors)
        with torch.inference_mode(), interruptible(interrupted, state.progress.step):
            scores[name] = dict(validator.validate(state.model))
        if validator.is_better(scores[name], scores[best]):
            best = name
    set_weights(state.model, found[best])
    return found[best], SelectionEvent(state.progress.step, best, scores)


@final
@dataclass
class _Trainer(Generic[B]):
    """Training loop of one worker."""

    state: TrainingState[B]
    config: TrainingConfig
    loss_function: LossFunction[Any, B]
    validator: Validator
    callback: Callback
    workers: WorkerGroup
    total_steps: int
    sharded: bool

    def restore_or_start(self) -> None:
        """Restore the latest checkpoint, or write the first one, so that a rollback always finds one."""
        state = self.state
        if not self._restore_latest():
            if self.config.ema_decay is not None:
                state.ema = {name: parameter.detach().clone() for name, parameter in state.model.named_parameters()}
            state.progress = state.progress.replace(position=state.stream.position)
            self._write_checkpoint()
        state.resumed = state.progress
        self.began = time.perf_counter() - state.progress.seconds  # of the whole run, resumed runs included

    def run(self, interrupted: Callable[[], bool]) -> None:
        state, config = self.state, self.config
        while not self._is_finished():
            began, epoch = time.perf_counter(), state.stream.position["epoch"]
            batches = [next(state.stream) for _ in range(config.grad_accumulation)]
            peak = config.optimizer.learning_rate * state.progress.learning_rate_scale
            factor = learning_rate_factor(config.schedule, state.progress.step + 1, total_steps=self.total_steps)
            loss, nll, tokens, norm = self._step(batches, peak * factor)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self._roll_back(batches)
                continue
            if state.ema is not None and config.ema_decay is not None:
                state.ema = update_ema(state.ema, dict(state.model.named_parameters()), decay=config.ema_decay)
            self._advance(LossSums(loss, nll, tokens, time.perf_counter() - began))
            self.callback(StepEvent(state.progress.step))
            report = partial(self._log, epoch=epoch, learning_rate=peak * factor, gradient_norm=norm)
            validated = self._report_and_validate(epoch, report)
            if self.workers.any(interrupted()):
                if not validated:
                    self.save()
                raise InterruptionError(state.progress.step)

    def _report_and_validate(self, epoch_before: int, report: Callable[[], None]) -> bool:
        """Log, validate and save where the intervals or the end require it; return whether it was validated."""
        state, finished = self.state, self._is_finished()
        before, is_report_due = state.progress, state.progress.step % self.config.log_every == 0
        is_validation_due = self._is_validation_due(epoch_before)
        if is_report_due or finished:
            report()
        if is_validation_due or finished:
            self._validate()
            if finished:
                progress = state.progress if is_validation_due else before
                sums = state.progress.since_log if is_report_due else before.since_log
                state.progress = state.progress.replace(before_end=progress.replace(since_log=sums))
            self.save()
        return is_validation_due or finished

    def save(self) -> None:
        self._write_checkpoint()
        self.callback(SaveEvent(self.state.progress.step))

    def _restore_latest(self, **changes: Any) -> bool:
        """Restore the latest checkpoint with these changes of its progress; return whether there is one."""
        state, checkpoints, workers = self.state, self.state.checkpoints, self.workers
        # Only the main worker knows when its asynchronous write has finished, and checks what it wrote.
        latest = checkpoints.load_latest(self._check_fit) if workers.is_main else None
        step = workers.broadcast((-1 if latest is None else latest.progress.step) if workers.is_main else None)
        if step < 0:
            return False
        checkpoint = latest or checkpoints.load(step)
        set_weights(state.model, checkpoint.model, where=str(checkpoints.folder))
        if checkpoint.shards is None:
            restore_optimizer(state.optimizer, state.model, checkpoint.optimizer)
        else:
            read_shards(checkpoint.shards, state.model, state.optimizer)
        if checkpoint.ema is not None:
            model = state.model
            state.ema = {name: place_like(one, model.get_parameter(name)) for name, one in checkpoint.ema.items()}
        state.progress = checkpoint.progress
        if state.progress.before_end is not None and not self._is_finished():  # the training was lengthened
            state.progress = state.progress.before_end
        state.progress = state.progress.replace(**changes)
        state.stream.seek(state.progress.position)
        return True

    def _check_fit(self, checkpoint: Checkpoint) -> None:
        """Raise RunError if a checkpoint does not fit model and optimizer."""
        state, where = self.state, f"{self.state.checkpoints.folder}, step {checkpoint.progress.step:,}"
        for tensors in (checkpoint.model, checkpoint.ema):
            if tensors is not None:
                check_tensors(state.model, tensors, where=where)
        check_optimizer_tensors(state.optimizer, state.model, checkpoint.optimizer, where=where)

    def _write_checkpoint(self) -> None:
        """Write a checkpoint on the main worker; every worker writes its shard of a sharded optimizer state."""
        state, workers = self.state, self.workers
        if not (self.sharded or workers.is_main):
            return
        ema = None if state.ema is None else gather_tensors(state.ema)
        weights = gather_tensors(dict(state.model.named_parameters()))
        optimizer = {} if self.sharded else optimizer_tensors(state.optimizer, state.model)
        write_own_shard = partial(write_shards, state.model, state.optimizer, workers) if self.sharded else None
        if workers.is_main:
            checkpoint = Checkpoint(state.progress, weights, optimizer, ema)
            state.checkpoints.save(checkpoint, write_shards=write_own_shard)
        elif write_own_shard is not None:
            write_own_shard(None)

    def _step(self, batches: list[B], learning_rate: float) -> tuple[float, float, int, float]:
        """Return the sums of loss and negative log-likelihood, the number of predictions, and the gradient norm."""
        state, config = self.state, self.config
        state.model.train()
        set_learning_rate(state.optimizer, learning_rate)
        seeds = (config.seed, state.progress.step + 1)
        try:
            sums = compute_gradients(
                state.model, batches, self.loss_function, seeds=seeds, precision=config.precision, workers=self.workers
            )
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"step {seeds[1]}: the memory of {model_device(state.model)} is too small for a batch of "
                f"{config.token_budget:,} tokens; train again with a lower training.batch_tokens, and raise "
                "training.grad_accumulation to keep the steps as large"
            ) from error
        return *sums, apply_gradients(state.model, state.optimizer, max_grad_norm=config.max_grad_norm)

    def _advance(self, sums: LossSums) -> None:
        progress = self.state.progress
        self.state.progress = progress.replace(
            step=progress.step + 1,
            tokens=progress.tokens + sums.tokens,
            position=self.state.stream.position,
            seconds=time.perf_counter() - self.began,
            since_log=progress.since_log + sums,
        )

    def _roll_back(self, batches: list[B]) -> None:
        """Restore the latest checkpoint with half the learning rate, at most `MAX_ROLLBACKS` times."""
        progress = self.state.progress
        failed, scale, count = progress.step + 1, progress.learning_rate_scale / 2, progress.rollbacks + 1
        rows = tuple(row for batch in batches for row in batch.rows.tolist())
        examples = self.state.describe_rows(rows)
        if count > MAX_ROLLBACKS:
            raise TrainingError(
                f"step {failed}: the loss is not finite, and {MAX_ROLLBACKS} rollbacks with half the learning rate did "
                f"not help. Check the texts of its batch ({examples}), or train again with a lower "
                "training.optimizer.learning_rate, a longer training.schedule.warmup or a lower training.max_grad_norm"
            )
        self._restore_latest(learning_rate_scale=scale, rollbacks=count)
        self.callback(RollbackEvent(failed, rows, examples, self.state.progress.step, scale))

    def _is_validation_due(self, epoch_before: int) -> bool:
        step, epoch = self.state.progress.step, self.state.stream.position["epoch"]
        steps, epochs = self.config.validate_every, self.config.validate_every_epochs
        by_step = steps is not None and step % steps == 0
        return by_step or (epochs is not None and epoch // epochs > epoch_before // epochs)

    def _is_finished(self) -> bool:
        return bool(self.state.progress.reached_limits(self.config))

    def _log(self, *, epoch: int, learning_rate: float, gradient_norm: float) -> None:
        progress, sums = self.state.progress, self.state.progress.since_log
        self.callback(
            LogEvent(
                step=progress.step,
                epoch=epoch,
                loss=sums.loss / sums.tokens,
                negative_log_likelihood=sums.negative_log_likelihood / sums.tokens,
                gradient_norm=gradient_norm,
                learning_rate=learning_rate,
                tokens_per_second=sums.tokens / sums.seconds,
                seconds=progress.seconds,
            )
        )
        self.state.progress = progress.replace(since_log=LossSums())

    def _validate(self) -> None:
        model, scores = self._validation_model(), None
        if self.workers.is_main:
            with torch.inference_mode():
                scores = dict(self.validator.validate(model))
            self._record_validation(scores)  # before the broadcast, which fails if a worker is lost
        shared_scores = self.workers.broadcast(scores)
        if not self.workers.is_main:
            self._record_validation(shared_scores)

    def _record_validation(self, scores: dict[str, float]) -> None:
        state, progress = self.state, self.state.progress
        improved = self.validator.is_better(scores, progress.best.scores if progress.best else None)
        seconds = time.perf_counter() - self.began
        state.progress = progress.replace(
            best=BestValidation(progress.step, scores) if improved else progress.best,
            stale_validations=0 if improved else progress.stale_validations + 1,
            recent=(*progress.recent, progress.step)[-state.checkpoints.keep :],
            seconds=seconds,
        )
        epoch = int(progress.position["epoch"])
        self.callback(ValidationEvent(progress.step, epoch, scores, improved, seconds))

    def _validation_model(self) -> nn.Module:
        """Return the model in evaluation mode, unsharded on the main worker; all workers must call this."""
        state = self.state
        if not self.sharded:
            return state.model.eval()
        weights = gather_tensors(dict(state.model.eval().named_parameters()))
        if state.validation_model is None:
            return state.model
        set_weights(state.validation_model, weights)
        return state.validation_model.eval()
