"""Training loop: logs, validation, checkpoints, rollbacks, end; resumed training equals uninterrupted training."""

import json
import math

import pytest
import torch

from dragoman.errors import ConfigError, RunError, TrainingError
from dragoman.models.weight_storage import get_weights, load_tensors, save_tensors
from dragoman.training.callbacks import (
    JsonlCallback,
    LogEvent,
    RollbackEvent,
    SaveEvent,
    StartEvent,
    StepEvent,
    ValidationEvent,
)
from dragoman.training.checkpoint import CheckpointWarning, Progress
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import WorkerGroup, WorkerLostError
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.schedules import ConstantSchedule, InverseSqrtSchedule, LinearSchedule
from dragoman.training.trainer import InterruptionError, Validator, total_steps
from tests.tiny_training import BUDGET, SMALL, build_run, failing_at, of, train_small, validation_by, validation_of


def config(**choices) -> TrainingConfig:
    usual = {"max_steps": 13, "validate_every": 5, "log_every": 3, "schedule": ConstantSchedule()}
    return TrainingConfig(**(usual | {"batch_tokens": BUDGET} | choices))


def steps_of(kind, events) -> list[int]:
    return [event.step for event in of(kind, events)]


def same_weights(one, other) -> bool:
    return all(torch.equal(tensor, get_weights(other.model)[name]) for name, tensor in get_weights(one.model).items())


def test_steps_are_logged_validated_and_saved(tmp_path):
    run = build_run(tmp_path, config())
    events = train_small(run, config())
    [started] = of(StartEvent, events)
    assert (started.step, started.total_steps, started.device) == (0, 13, "cpu")
    assert started.num_parameters == sum(parameter.numel() for parameter in run.model.parameters())
    assert steps_of(LogEvent, events) == [3, 6, 9, 12, 13]  # the last step is always logged
    assert steps_of(ValidationEvent, events) == [5, 10, 13]
    assert steps_of(SaveEvent, events) == [5, 10, 13]
    assert run.progress.step == 13
    assert run.progress.recent == (5, 10, 13)


def test_validation_interval_in_epochs(tmp_path):
    run = build_run(tmp_path, config())
    an_epoch = run.stream.batches_per_epoch()
    chosen = config(max_epochs=3, max_steps=None, validate_every=None, validate_every_epochs=1)
    events = train_small(run, chosen)
    validated = of(ValidationEvent, events)
    assert [event.epoch for event in validated] == [1, 2, 3]
    assert validated[0].step == an_epoch
    assert run.progress.position == {"epoch": 3, "batch": 0}


def test_total_steps_of_epochs(tmp_path):
    stream = build_run(tmp_path, config()).stream
    assert total_steps(config(max_epochs=7, max_steps=None), stream) == 7 * stream.batches_per_epoch()
    assert total_steps(config(max_epochs=7, max_steps=None, grad_accumulation=3), stream) == math.ceil(
        7 * stream.batches_per_epoch() / 3
    )
    with pytest.raises(
        ConfigError, match=r"training.grad_accumulation = 1,000 batches per step, and .* has \d+; lower"
    ):
        total_steps(config(max_epochs=1, max_steps=None, grad_accumulation=1000), stream)
    assert total_steps(config(max_steps=11, grad_accumulation=3), stream) == 11


def test_patience_ends_training(tmp_path):
    chosen = config(max_steps=1000, validate_every=2, patience=3)
    run = build_run(tmp_path, chosen)
    events = train_small(run, chosen, judge=validation_of([1.0, 3.0, 2.0, math.nan, 3.0, 9.0]))
    assert [event.improved for event in of(ValidationEvent, events)] == [True, True, False, False, False]
    assert run.progress.step == 10
    assert run.progress.best is not None
    assert run.progress.best.step == 4


def test_validator_may_prefer_lower_scores(tmp_path):
    run = build_run(tmp_path, config())
    events = train_small(run, config(), judge=validation_of([3.0, 2.0, 2.5], higher_is_better=False))
    assert [event.improved for event in of(ValidationEvent, events)] == [True, True, False]


def test_nan_is_never_better():
    judge = Validator(lambda _: {}, metric="loss", higher_is_better=False)
    assert not judge.is_better({"loss": math.nan}, None)
    assert not judge.is_better({"loss": math.nan}, {"loss": 1.0})
    assert judge.is_better({"loss": 1.0}, {"loss": math.nan})
    assert judge.is_better({"loss": 1.0}, None)


def test_learning_rate_follows_the_schedule(tmp_path):
    chosen = config(schedule=LinearSchedule(warmup=4), log_every=1)
    rates = [event.learning_rate for event in of(LogEvent, train_small(build_run(tmp_path, chosen), chosen))]
    peak = chosen.optimizer.learning_rate
    assert rates[:4] == pytest.approx([peak / 4, peak / 2, peak * 3 / 4, peak])
    assert rates[12] == pytest.approx(0.0)


def test_log_is_the_mean_since_the_previous_log(tmp_path):
    single = of(LogEvent, train_small(build_run(tmp_path / "one", config()), config(log_every=1)))
    run = build_run(tmp_path / "three", config())
    [first, *_] = of(LogEvent, train_small(run, config(log_every=3)))
    stream = build_run(tmp_path / "count", config()).stream
    tokens = [int(next(stream).target_lengths.sum()) for _ in range(3)]
    expected = sum(event.loss * count for event, count in zip(single, tokens, strict=False)) / sum(tokens)
    assert first.loss == pytest.approx(expected, rel=1e-6)


def test_speed_counts_the_steps_before_an_interruption(tmp_path):
    asked = iter([False, True])
    run = build_run(tmp_path, config())
    with pytest.raises(InterruptionError):
        train_small(run, config(), interrupted=lambda: next(asked))
    before = run.checkpoints.load(2).progress.since_log
    assert 0 < before.seconds < run.progress.seconds
    resumed = build_run(tmp_path, config())
    [first, *_] = of(LogEvent, train_small(resumed, config()))
    assert first.step == 3
    assert first.tokens_per_second < (before.tokens + BUDGET) / before.seconds


def test_nan_loss_rolls_back_with_half_the_rate(tmp_path):
    run = build_run(tmp_path, config())
    objective = failing_at(cross_entropy_loss(0.1), lambda call: call == 8)
    events = train_small(run, config(log_every=1), objective=objective)
    [rolled_back] = of(RollbackEvent, events)
    assert (rolled_back.failed_step, rolled_back.step, rolled_back.learning_rate_scale) == (8, 5, 0.5)
    assert rolled_back.examples.startswith("examples ")
    assert len(rolled_back.rows) > 0
    assert steps_of(LogEvent, events) == [*range(1, 8), *range(6, 14)]
    rates = [event.learning_rate for event in of(LogEvent, events)]
    assert rates == pytest.approx([0.001] * 7 + [0.0005] * 8)
    assert run.progress.rollbacks == 1
    assert all(torch.isfinite(parameter).all() for parameter in run.model.parameters())


def test_early_rollback_restarts(tmp_path):
    run = build_run(tmp_path, config())
    events = train_small(run, config(), objective=failing_at(cross_entropy_loss(0.1), lambda call: call == 1))
    assert [(event.failed_step, event.step) for event in of(RollbackEvent, events)] == [(1, 0)]
    assert run.progress.step == 13


def test_workers_restore_the_main_worker_s_checkpoint(tmp_path, monkeypatch):
    """A worker might find an older or incomplete checkpoint while the main worker writes."""
    train_small(build_run(tmp_path, config()), config(max_steps=5))
    said = iter([5, 0, {"quality": 0.0}])
    monkeypatch.setattr(WorkerGroup, "broadcast", lambda self, value: next(said))
    monkeypatch.setattr(WorkerGroup, "is_main", False)
    chosen = config(max_steps=8, validate_every=100)
    run, objective = build_run(tmp_path, chosen), failing_at(cross_entropy_loss(0.1), lambda call: call == 1)
    [rolled_back] = of(RollbackEvent, train_small(run, chosen, objective=objective))
    assert (rolled_back.failed_step, rolled_back.step) == (6, 0)
    assert run.progress.step == 8


@pytest.mark.parametrize("last_words", ["broadcast", "any"], ids=["while it validates", "before it goes on"])
def test_worker_lost_between_steps_costs_no_step(tmp_path, monkeypatch, last_words):
    """Between steps, workers exchange only validation scores and interruptions."""
    run, calls = build_run(tmp_path, config()), []

    def lost(self, value):
        calls.append(value)
        if run.progress.step == 10:
            raise WorkerLostError("a worker was lost")
        return value

    monkeypatch.setattr(WorkerGroup, last_words, lost)
    with pytest.raises(WorkerLostError):
        train_small(run, config())
    assert calls
    assert run.checkpoints.steps() == [5, 10]
    saved = run.checkpoints.load(10)
    assert all(torch.equal(tensor, get_weights(run.model)[name]) for name, tensor in saved.model.items())
    monkeypatch.undo()
    resumed, whole = build_run(tmp_path, config()), build_run(tmp_path / "whole", config())
    train_small(resumed, config())
    train_small(whole, config())
    assert same_weights(resumed, whole)
    assert resumed.progress.recent == whole.progress.recent == (5, 10, 13)


def test_persistent_nan_loss_is_an_error(tmp_path):
    run = build_run(tmp_path, config())
    run.describe_rows = lambda rows: f"{len(rows)} lines"
    with pytest.raises(TrainingError, match=r"step 6: .* 3 rollbacks .* did not help.*\d+ lines.*learning_rate"):
        train_small(run, config(), objective=failing_at(cross_entropy_loss(0.1), lambda call: call >= 7))
    assert run.checkpoints.steps() == [0, 5]


def test_out_of_memory_names_the_setting(tmp_path):
    def objective(model, batch):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(TrainingError, match=r"step 1: the memory of cpu .* 47 tokens; .*training.batch_tokens"):
        train_small(build_run(tmp_path, config()), config(), objective=objective)


@pytest.mark.parametrize("behind", [False, True], ids=["written at once", "written behind"])
def test_interruption_saves_and_names_the_step(tmp_path, behind):
    run = build_run(tmp_path, config(), behind=behind)
    asked = iter([False, False, True])
    with pytest.raises(InterruptionError, match="stopped after step 3; everything is saved") as raised:
        train_small(run, config(), interrupted=lambda: next(asked))
    assert raised.value.step == 3
    assert (run.checkpoints.folder / "000000003" / "progress.json").exists(), "it is there when it is said to be"
    assert run.checkpoints.steps() == [0, 3]
    latest = run.checkpoints.load(3)
    assert latest.progress == run.progress
    assert latest.progress.recent == ()  # a checkpoint between two validations is not averaged


@pytest.mark.parametrize("behind", [False, True], ids=["written at once", "written behind"])
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"grad_accumulation": 3, "ema_decay": 0.7},
        {
            "max_epochs": 3,
            "max_steps": None,
            "validate_every": None,
            "validate_every_epochs": 1,
            "schedule": LinearSchedule(warmup=2),
            "keep_checkpoints": 1,
        },
    ],
    ids=["plain", "accumulated and averaged", "epochs"],
)
def test_resumed_training_equals_uninterrupted(tmp_path, choices, behind):
    chosen = config(**choices)
    whole = build_run(tmp_path / "whole", chosen)
    metrics = JsonlCallback(tmp_path / "whole.jsonl")
    train_small(whole, chosen, observe=metrics)
    broken, broken_metrics = resume_repeatedly(tmp_path / "broken", chosen, behind=behind)
    assert same_weights(whole, broken)
    if whole.ema is not None:
        assert broken.ema is not None
        assert all(torch.equal(tensor, broken.ema[name]) for name, tensor in whole.ema.items())
    assert timeless(broken.progress) == timeless(whole.progress)
    assert without_times(broken_metrics) == without_times(metrics.path)


def resume_repeatedly(folder, chosen, *, behind):
    """Train with an interruption after three steps of four, and resume from the disk each time."""
    metrics = JsonlCallback(folder.parent / "broken.jsonl")
    for _ in range(100):
        run = build_run(folder, chosen, behind=behind)
        try:
            train_small(run, chosen, observe=metrics, interrupted=lambda at=run: at.progress.step % 4 != 0)
        except InterruptionError:
            continue
        return run, metrics.path
    raise AssertionError("it does not come to an end")


def without_times(path) -> list[dict]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{key: row[key] for key in row if key not in ("seconds", "tokens_per_second")} for row in rows]


def test_ema_follows_the_weights(tmp_path):
    chosen = config(max_steps=2, ema_decay=0.75)
    run = build_run(tmp_path, chosen)
    path = [{name: tensor.clone() for name, tensor in get_weights(run.model).items()}]
    for count in (1, 2):
        chosen_for_now = chosen.model_copy(update={"max_steps": count})
        again = build_run(tmp_path, chosen)
        train_small(again, chosen_for_now)
        path.append(get_weights(again.model))
    first = {name: 0.75 * tensor + 0.25 * path[1][name] for name, tensor in path[0].items()}
    assert again.ema is not None
    for name, tensor in first.items():
        torch.testing.assert_close(again.ema[name], 0.75 * tensor + 0.25 * path[2][name])


def test_no_ema_without_decay(tmp_path):
    run = build_run(tmp_path, config())
    train_small(run, config())
    assert run.ema is None
    assert not list(tmp_path.rglob("ema.safetensors"))


def test_validation_disables_dropout(tmp_path):
    modes = []
    run = build_run(tmp_path, config())
    judge = Validator(lambda model: modes.append(model.training) or {"quality": 0.0}, "quality", higher_is_better=True)

    def objective(model, batch):
        modes.append(model.training)
        return cross_entropy_loss(0.1)(model, batch)

    train_small(run, config(max_steps=6), judge=judge, objective=objective)
    assert modes == [True] * 5 + [False, True, False]


LENGTHENED = {
    "the end is between two logs and two validations": (13, {}),
    "the end is at a validation": (15, {"log_every": 4}),
    "the end is at a log": (12, {}),
    "moving average, accumulation, few checkpoints": (
        7,
        {"ema_decay": 0.9, "grad_accumulation": 2, "keep_checkpoints": 2, "schedule": InverseSqrtSchedule(warmup=3)},
    ),
}


@pytest.mark.parametrize(("first", "changes"), list(LENGTHENED.values()), ids=list(LENGTHENED))
def test_lengthened_training_equals_a_long_one(tmp_path, first, changes):
    long = build_run(tmp_path / "long", config(max_steps=22, **changes))
    judge = validation_by(lambda model: float(next(model.parameters()).flatten()[0]))
    expected = train_small(long, config(max_steps=22, **changes), judge=judge)
    short = config(max_steps=first, **changes)
    train_small(build_run(tmp_path / "grown", short), short, judge=judge)
    grown = build_run(tmp_path / "grown", config(max_steps=22, **changes))
    events = train_small(grown, config(max_steps=22, **changes), judge=judge)
    assert same_weights(grown, long)
    assert timeless(grown.progress) == timeless(long.progress)
    assert steps_of(LogEvent, events) == [step for step in steps_of(LogEvent, expected) if step > first]
    one, other = (run.checkpoints.candidates(run.progress, run.ema) for run in (grown, long))
    assert one.keys() == other.keys()
    for name, weights in one.items():
        assert all(torch.equal(tensor, other[name][key]) for key, tensor in weights.items()), name


def timeless(progress: Progress) -> dict:
    tree = progress.model_dump(exclude={"seconds": True, "since_log": {"seconds"}, "before_end": True})
    before = progress.before_end
    return tree | ({} if before is None else {"before_end": timeless(before)})


def test_ended_training_keeps_its_end_if_it_is_not_lengthened(tmp_path):
    """A run that is stopped while its weights are selected resumes with the validation at its end."""
    run = build_run(tmp_path, config())
    train_small(run, config())
    again = build_run(tmp_path, config())
    assert steps_of(ValidationEvent, train_small(again, config())) == []
    assert again.progress == run.progress
    assert again.progress.recent == (5, 10, 13)


def test_every_step_is_reported(tmp_path):
    events = train_small(build_run(tmp_path, config()), config())
    assert steps_of(StepEvent, events) == list(range(1, 14))
    assert events.index(StepEvent(3)) < events.index(of(LogEvent, events)[0])


def test_training_continues_before_a_damaged_checkpoint(tmp_path):
    whole, resumed = build_run(tmp_path / "whole", config()), build_run(tmp_path, config())
    train_small(whole, config())
    with pytest.raises(InterruptionError):
        train_small(resumed, config(), interrupted=lambda: resumed.progress.step == 7)
    path = resumed.checkpoints.folder / "000000007" / "optimizer.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 64]) + content[-8:])
    again = build_run(tmp_path, config())
    with pytest.warns(CheckpointWarning, match=r"000000007: .*crc32.* continues from the checkpoint of step 5,"):
        train_small(again, config())
    assert again.resumed.step == 5
    expected = get_weights(whole.model)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in get_weights(again.model).items())


def test_checkpoint_with_nan_blames_no_text(tmp_path):
    """The update after a finite loss may overflow, and then a checkpoint holds NaN."""
    run = build_run(tmp_path, config())

    def overflow(event):
        if isinstance(event, StepEvent) and event.step == 10 and not run.progress.rollbacks:
            with torch.no_grad():
                next(run.model.parameters()).fill_(math.nan)

    with pytest.warns(CheckpointWarning, match="000000010: .*not finite.* continues from the checkpoint of step 5,"):
        events = train_small(run, config(), observe=overflow)
    [rolled_back] = of(RollbackEvent, events)
    assert (rolled_back.failed_step, rolled_back.step) == (11, 5)
    assert run.progress.step == 13


@pytest.mark.parametrize("gone", ["exp_avg", "exp_avg_sq", "step"])
def test_incomplete_optimizer_state_is_damage(tmp_path, gone):
    run = build_run(tmp_path, config())
    with pytest.raises(InterruptionError):
        train_small(run, config(), interrupted=lambda: run.progress.step == 7)
    path = run.checkpoints.folder / "000000007" / "optimizer.safetensors"
    tensors = load_tensors(path)
    del tensors[next(name for name in tensors if name.endswith(f"/{gone}"))]
    save_tensors(path, tensors)
    with pytest.warns(CheckpointWarning, match=r"step 7: the optimizer state .* from the checkpoint of step 5"):
        train_small(build_run(tmp_path, config()), config())


def test_optimizer_state_of_another_type_is_not_used(tmp_path):
    run = build_run(tmp_path, config())
    with pytest.raises(InterruptionError):
        train_small(run, config(), interrupted=lambda: run.progress.step == 7)
    path = run.checkpoints.folder / "000000007" / "optimizer.safetensors"
    tensors = load_tensors(path)
    last = max(name for name in tensors if name.endswith("/exp_avg"))
    save_tensors(path, tensors | {last: tensors[last].int()})
    with pytest.warns(CheckpointWarning, match=r"step 7: the optimizer state has another shape or type of"):
        train_small(build_run(tmp_path, config()), config())


def test_another_configuration_damages_no_checkpoint(tmp_path):
    run = build_run(tmp_path, config())
    train_small(run, config(max_steps=7))
    steps = run.checkpoints.steps()
    wide = build_run(tmp_path, config(), model=SMALL.model_copy(update={"d_ff": 13}))
    with pytest.raises(RunError, match=r"has another shape of .*; the weights belong to another configuration"):
        train_small(wide, config())
    assert run.checkpoints.steps() == steps
