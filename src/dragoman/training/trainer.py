"""The loop: update, report, validate, keep, until the end.

The loop knows neither search nor scores of strings; `validate` is handed in. What moves during a run lies in `Run`,
what stays lies in `TrainingConfig`.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, assert_never

import torch
from torch import Tensor, nn

from dragoman.data.batching.epochs import Stream
from dragoman.errors import ConfigError, DragomanError, TrainingError
from dragoman.models.weights import placed_like, set_weights
from dragoman.training.checkpoint import Best, Checkpoint, Checkpoints, Progress, Sums, moved_average
from dragoman.training.config import Epochs, Span, TrainingConfig, Updates
from dragoman.training.distributed import ALONE, Team, WorkerLostError, is_sharded, whole
from dragoman.training.events import Observer, RolledBack, Saved, Started, Updated, Validated
from dragoman.training.optimizers import Optimiser, optimiser_tensors, restore_optimiser, set_learning_rate
from dragoman.training.schedules import factor
from dragoman.training.step import B, Objective, Step, apply_gradients, compute_gradients, device_of

MOST_ROLLBACKS = 3


@dataclass(frozen=True)
class Judge:
    """How a training is validated: scores by name, and the one that decides."""

    validate: Callable[[nn.Module], Mapping[str, float]]
    deciding: str
    higher_is_better: bool

    def better(self, scores: Mapping[str, float], best: Mapping[str, float] | None) -> bool:
        """Whether `scores` are better than the best so far; what is not a number is never better."""
        new = scores[self.deciding]
        if math.isnan(new):
            return False
        if best is None or math.isnan(best[self.deciding]):
            return True
        return new > best[self.deciding] if self.higher_is_better else new < best[self.deciding]


class InterruptionError(DragomanError):
    """A person or the machine asked for an end; the checkpoint at `update` is on disk."""

    def __init__(self, update: int) -> None:
        super().__init__(f"stopped after update {update}; everything is saved")
        self.update = update


def _numbered(rows: Sequence[int]) -> str:
    return f"examples {', '.join(map(str, rows[:5]))}{', …' if len(rows) > 5 else ''}"


@dataclass
class Run(Generic[B]):
    """What moves; `name` says in words which examples the rows of a batch are."""

    model: nn.Module
    optimiser: Optimiser
    stream: Stream[B]
    checkpoints: Checkpoints
    progress: Progress
    average: dict[str, Tensor] | None = None
    name: Callable[[Sequence[int]], str] = _numbered
    judged: nn.Module | None = None
    """The network that is looked at, where `model` is in shards."""


def total_updates(length: Span, stream: Stream[Any], accumulate: int) -> int:
    """The length of a training in updates; for epochs, as many as the epoch where the stream stands has in each.

    Raises ConfigError where there are not enough batches for one.
    """
    match length:
        case Updates(count=count):
            return count
        case Epochs(count=count):
            batches = count * stream.batches_per_epoch()
            if batches < accumulate:
                raise ConfigError(
                    f"training.accumulate = {accumulate:,} batches make an update, and this training has {batches:,}; "
                    "lower it, or training.batch_tokens"
                )
            return -(-batches // accumulate)
        case _:
            assert_never(length)


def train(
    run: Run[B],
    config: TrainingConfig,
    *,
    objective: Objective[Any, B],
    judge: Judge,
    observe: Observer,
    device: torch.device,
    interrupted: Callable[[], bool] = lambda: False,
    team: Team = ALONE,
) -> Progress:
    """Train until the end or until `interrupted`; goes on from the latest checkpoint where there is one.

    All workers of a team call this; the one that leads is heard, judges and writes, so `observe` and `judge` are its
    own. Raises InterruptionError after saving, TrainingError where the loss stays not finite, and WorkerLostError.
    """
    total = total_updates(config.length, run.stream, config.accumulate)  # before the stream moves to where it was
    _begin(run, config, team)
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    observe(Started(run.progress.update, total, parameters, str(device)))
    try:
        with team.joining_shards():
            _go_on(run, config, objective, judge, observe, interrupted, total=total, team=team)
    except WorkerLostError:
        if team.leads and not is_sharded(run.model):
            _save(run, observe)  # nothing of an update is applied before all workers have done their part
        raise
    finally:
        run.checkpoints.finish()
    return run.progress


def _go_on(
    run: Run[B],
    config: TrainingConfig,
    objective: Objective[Any, B],
    judge: Judge,
    observe: Observer,
    interrupted: Callable[[], bool],
    *,
    total: int,
    team: Team,
) -> None:
    clock = _Clock(run.progress.seconds)
    while not _ended(run.progress, config, total):
        began, epoch = clock.seconds, run.stream.position["epoch"]
        batches = [next(run.stream) for _ in range(config.accumulate)]
        rate = _rate(config, run.progress, total)
        step = _update(run, config, batches, objective, rate=rate, team=team)
        if not step.finite:
            _roll_back(run, batches, observe, team)
            continue
        clock.worked(step.tokens, since=began)
        _advance(run, step, clock)
        ended = _ended(run.progress, config, total)
        if ended or run.progress.update % config.report == 0:
            _report(run, observe, clock, epoch=epoch, rate=rate, gradient_norm=step.gradient_norm)
        validated = ended or _due(config.interval, run, epoch)
        if validated:
            _validate_and_keep(run, judge, observe, clock, team=team)
        if team.any(interrupted()):
            if not validated:
                _save(run, observe, team)
            raise InterruptionError(run.progress.update)


def _begin(run: Run[Any], config: TrainingConfig, team: Team) -> None:
    """Go on from the latest checkpoint, or write the first one, so that there is always one to go back to."""
    latest = _latest(run, team)
    if latest is not None:
        _restore(run, latest)
        return
    if config.moving_average is not None:
        run.average = {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}
    run.progress = run.progress.but(position=run.stream.position)
    _write(run, team)


def _latest(run: Run[Any], team: Team) -> Checkpoint | None:
    """The newest checkpoint, by the leader's word: it alone knows when what it writes is there."""
    update = team.agreed(max(run.checkpoints.updates(), default=-1) if team.leads else None)
    return run.checkpoints.load(update) if update >= 0 else None


def _restore(run: Run[Any], checkpoint: Checkpoint) -> None:
    set_weights(run.model, checkpoint.model, where=str(run.checkpoints.folder))
    shards = run.checkpoints.shards(checkpoint.progress.update)
    if shards is None:
        restore_optimiser(run.optimiser, run.model, checkpoint.optimiser)
    else:
        from dragoman.training.fsdp import read_shards

        read_shards(shards, run.model, run.optimiser)
    if checkpoint.average is not None:
        places = dict(run.model.named_parameters())
        run.average = {name: placed_like(tensor, places[name]) for name, tensor in checkpoint.average.items()}
    run.progress = checkpoint.progress
    run.stream.seek(checkpoint.progress.position)


def _snapshot(run: Run[Any]) -> Checkpoint:
    """All there is to be written, whole, except the optimiser's memory where that is in shards."""
    tensors = {} if is_sharded(run.model) else optimiser_tensors(run.optimiser, run.model)
    average = None if run.average is None else whole(run.average)
    return Checkpoint(run.progress, whole(dict(run.model.named_parameters())), tensors, average)


def _write(run: Run[Any], team: Team) -> None:
    """Write a checkpoint: the leader, and where there are shards, all workers beside it."""
    if not is_sharded(run.model):
        if team.leads:
            run.checkpoints.save(_snapshot(run))
        return
    from dragoman.training.fsdp import write_shards

    def beside(folder: Path | None) -> None:
        write_shards(Path(team.agreed(None if folder is None else str(folder))), run.model, run.optimiser)

    snapshot = _snapshot(run)
    if team.leads:
        run.checkpoints.save(snapshot, write_shards=beside)
    else:
        beside(None)


def _update(
    run: Run[B], config: TrainingConfig, batches: list[B], objective: Objective[Any, B], *, rate: float, team: Team
) -> Step:
    run.model.train()
    set_learning_rate(run.optimiser, rate)
    seeds = (config.seed, run.progress.update + 1)
    try:
        loss, nll, tokens = compute_gradients(
            run.model, batches, objective, seeds=seeds, precision=config.precision, team=team
        )
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"update {seeds[1]}: the memory of {device_of(run.model)} is too small for a batch of "
            f"{config.budget:,} tokens; train anew with a lower training.batch_tokens, and raise "
            "training.accumulate to keep the updates as large"
        ) from error
    norm = apply_gradients(run.model, run.optimiser, clip=config.clip)
    step = Step(loss=loss, negative_log_likelihood=nll, tokens=tokens, gradient_norm=norm)
    if run.average is not None and config.moving_average is not None and step.finite:
        now = {name: parameter.detach() for name, parameter in run.model.named_parameters()}
        run.average = moved_average(run.average, now, decay=config.moving_average)
    return step


def _advance(run: Run[Any], step: Step, clock: "_Clock") -> None:
    progress, sums = run.progress, run.progress.since_report
    run.progress = progress.but(
        update=progress.update + 1,
        tokens=progress.tokens + step.tokens,
        position=run.stream.position,
        seconds=clock.seconds,
        since_report=Sums(
            loss=sums.loss + step.loss,
            negative_log_likelihood=sums.negative_log_likelihood + step.negative_log_likelihood,
            tokens=sums.tokens + step.tokens,
        ),
    )


def _rate(config: TrainingConfig, progress: Progress, total: int) -> float:
    peak = config.optimiser.learning_rate * progress.rate_scale
    return peak * factor(config.schedule, progress.update + 1, total=total)


def _roll_back(run: Run[B], batches: list[B], observe: Observer, team: Team) -> None:
    """Back to the latest checkpoint with half the learning rate, at most three times."""
    failed, scale, count = run.progress.update + 1, run.progress.rate_scale / 2, run.progress.rollbacks + 1
    rows = tuple(row for batch in batches for row in batch.rows.tolist())
    examples = run.name(rows)
    if count > MOST_ROLLBACKS:
        raise TrainingError(
            f"update {failed}: the loss is not finite, and going back with half the learning rate {MOST_ROLLBACKS} "
            f"times did not help. Look at the texts of its batch ({examples}), or train anew with a lower "
            "training.optimiser.learning_rate, a longer training.schedule.warmup or a lower training.clip"
        )
    checkpoint = _latest(run, team)
    assert checkpoint is not None, "the first checkpoint is written before the first update"
    _restore(run, replace(checkpoint, progress=checkpoint.progress.but(rate_scale=scale, rollbacks=count)))
    observe(RolledBack(failed, rows, examples, run.progress.update, scale))


def _due(interval: Span, run: Run[Any], epoch_before: int) -> bool:
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


def _report(
    run: Run[Any], observe: Observer, clock: "_Clock", *, epoch: int, rate: float, gradient_norm: float
) -> None:
    sums = run.progress.since_report
    event = Updated(
        update=run.progress.update,
        epoch=epoch,
        loss=sums.loss / sums.tokens,
        negative_log_likelihood=sums.negative_log_likelihood / sums.tokens,
        gradient_norm=gradient_norm,
        learning_rate=rate,
        tokens_per_second=clock.speed(),
        seconds=clock.seconds,
    )
    observe(event)
    run.progress = run.progress.but(since_report=Sums())


def _validate_and_keep(run: Run[Any], judge: Judge, observe: Observer, clock: "_Clock", *, team: Team) -> None:
    model, scores = _to_be_judged(run), None
    if team.leads:
        with torch.inference_mode():
            scores = dict(judge.validate(model))
        _keep(run, judge, observe, clock, scores)
        if not is_sharded(run.model):
            _save(run, observe, team)  # before others are told, who may be lost
    told = team.agreed(scores)
    if not team.leads:
        _keep(run, judge, observe, clock, told)
    if is_sharded(run.model):
        _save(run, observe, team)


def _keep(run: Run[Any], judge: Judge, observe: Observer, clock: "_Clock", scores: Mapping[str, float]) -> None:
    """Note what was found by validation."""
    progress = run.progress
    improved = judge.better(scores, progress.best.scores if progress.best else None)
    run.progress = progress.but(
        best=Best(update=progress.update, scores=scores) if improved else progress.best,
        waited=0 if improved else progress.waited + 1,
        regular=(*progress.regular, progress.update)[-run.checkpoints.keep :],
        seconds=clock.seconds,
    )
    observe(Validated(progress.update, int(progress.position["epoch"]), scores, improved, clock.seconds))


def _to_be_judged(run: Run[Any]) -> nn.Module:
    """The network with the weights as they are, whole where this worker judges; all workers have to ask."""
    run.model.eval()
    if not is_sharded(run.model):
        return run.model
    weights = whole(dict(run.model.named_parameters()))
    if run.judged is None:
        return run.model
    set_weights(run.judged, weights)
    return run.judged.eval()


def _save(run: Run[Any], observe: Observer, team: Team = ALONE) -> None:
    _write(run, team)
    observe(Saved(run.progress.update))


class _Clock:
    """The seconds of the whole run over all its sittings, and the speed of the updates since the last report."""

    def __init__(self, seconds_before: float) -> None:
        self._began = time.perf_counter() - seconds_before
        self._tokens, self._working = 0, 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def worked(self, tokens: int, *, since: float) -> None:
        """An update is over that began at `since`; what lies between updates counts against no speed."""
        self._tokens += tokens
        self._working += self.seconds - since

    def speed(self) -> float:
        """Tokens a second since this was last asked."""
        speed = self._tokens / self._working
        self._tokens, self._working = 0, 0.0
        return speed
