"""Train in an existing run folder: data, workers, steps, weights, scores and model card."""

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dragoman import cpu_library
from dragoman.atomic_files import WriteError
from dragoman.data.fingerprints import json_fingerprint
from dragoman.errors import RunError, StoppedError, quote, warn
from dragoman.models.weight_storage import save_tensors
from dragoman.profiling.memory_and_time_estimate import build_meta_model
from dragoman.profiling.time_and_memory_per_batch import use_batches
from dragoman.profiling.workers_and_threads import (
    Arrangement,
    choose_arrangement,
    describe_arrangement,
    record_peak_memory,
    recorded_arrangement,
)
from dragoman.runs.auto_config import resolve_batch_tokens
from dragoman.runs.config import describe_validation
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import ComputeTypeWarning
from dragoman.runs.model_card import (
    TrainingResult,
    describe_model,
    environment_changes,
    write_environment,
    write_model_card,
    write_scores,
)
from dragoman.runs.training_sources import write_familiarity
from dragoman.tasks.build_training import final_scores, gather_shards, prepare_state, validate_on_all_cores
from dragoman.tasks.config import Experiment
from dragoman.tasks.factory import build_task
from dragoman.tasks.task import TaskData
from dragoman.training import distributed
from dragoman.training.callbacks import (
    Callback,
    EndEvent,
    JsonlCallback,
    SilentReporter,
    TensorBoardCallback,
    TrainingReporter,
    combine_callbacks,
)
from dragoman.training.checkpoint import CheckpointStore
from dragoman.training.config import TrainingConfig
from dragoman.training.launch import WorkerProcesses, WorkerRank
from dragoman.training.precision import lacks_bfloat16
from dragoman.training.step import check_compilable
from dragoman.training.trainer import InterruptionError, select_weights
from dragoman.training.trainer import train as run_steps


def train_in_folder(
    folder: RunFolder,
    experiment: Experiment,
    *,
    device: torch.device,
    tensorboard: bool = False,
    reporter: TrainingReporter | None = None,
    early: WorkerProcesses | None = None,
) -> TrainingResult:
    """Train in an existing run folder, from the last checkpoint if there is one.

    `early` are worker processes that have been started already. Raises RunError with the command that continues the
    training when it is interrupted or a worker is lost.
    """
    reporter = reporter or SilentReporter()
    if experiment.training.compile:
        check_compilable(device, mode=experiment.training.compile)
    callbacks: list[Callback] = [TensorBoardCallback(folder.path / "tensorboard")] if tensorboard else []
    task = build_task(experiment)
    with folder.locked():
        if folder.read_config() != experiment:
            folder.lengthen(experiment)
        experiment, data = _prepare_data(folder, experiment, device=device, reporter=reporter)
        model = build_meta_model(experiment, folder)
        arrangement = _choose_arrangement(folder, experiment, model, tokens=data.tokens_per_epoch, device=device)
        if (seconds := _remaining_seconds(folder, experiment, data, arrangement, device=device)) is not None:
            reporter.show_estimate(seconds)
        with (
            distributed.lead_workers(
                arrangement.num_workers,
                threads=arrangement.num_threads,
                message=distributed.worker_message(folder.path, device) | {"corpora": _corpora_fingerprint(data)},
                early=early,
            ) as workers,
            reporter.interruption() as interrupted,
            reporter.callback(task.description.unit) as display,
            _explain_resuming(folder),
        ):
            _report_environment(folder, workers, device=device, reporter=reporter)
            if (note := describe_validation(experiment)) is not None:
                reporter.show_line(f"note: {note}")
            return train_and_score(
                experiment,
                folder,
                data,
                device=device,
                callbacks=[*callbacks, *([display] if display is not None else [])],
                interrupted=interrupted,
                workers=workers,
            )


def _choose_arrangement(
    folder: RunFolder, experiment: Experiment, model: nn.Module, *, tokens: int, device: torch.device
) -> Arrangement:
    """Return the workers and threads of a new training, or of the run so far where they are not configured."""
    chosen = choose_arrangement(experiment.training, model, tokens=tokens, device=device)
    recorded = recorded_arrangement(folder.read_environment(), device=device)
    if recorded is None or experiment.training.num_workers not in ("auto", recorded.num_workers):
        return chosen
    return recorded


def _remaining_seconds(
    folder: RunFolder,
    experiment: Experiment,
    data: TaskData,
    arrangement: Arrangement,
    *,
    device: torch.device,
) -> float | None:
    """Estimate the remaining seconds at the speed of the run so far; None if it had other threads or is new."""
    progress, environment = CheckpointStore(folder.checkpoints, keep=1).latest_progress(), folder.read_environment()
    done = progress.fraction_done(experiment.training, tokens_per_epoch=data.tokens_per_epoch)
    is_same = environment.get("platform") == platform.platform()
    if done and is_same and arrangement == recorded_arrangement(environment, device=device):
        return progress.seconds / done * (1 - done)
    return None


def _report_environment(
    folder: RunFolder, workers: distributed.WorkerGroup, *, device: torch.device, reporter: TrainingReporter
) -> None:
    if (arrangement := describe_arrangement(workers, device)) is not None:
        reporter.show_line(f"training: {arrangement}")
    before = folder.read_environment()
    reporter.show_environment_changes(environment_changes(before, device=device, num_workers=workers.world_size))


def _prepare_data(
    folder: RunFolder, experiment: Experiment, *, device: torch.device, reporter: TrainingReporter
) -> tuple[Experiment, Any]:
    """Prepare the data, resolve `batch_tokens: auto`, and report both."""
    with reporter.status() as report:
        data = build_task(experiment).prepare_data(folder, report=report)
    reporter.show_data(data)
    if experiment.training.batch_tokens == "auto":
        with reporter.status() as report:
            experiment, sentence = resolve_batch_tokens(experiment, device=device, report=report, folder=folder)
        folder.write_config(experiment)
        reporter.show_line(sentence)
    return experiment, data


def _corpora_fingerprint(data: TaskData) -> str:
    """Return a hash that is equal where all workers read the same corpora."""
    return json_fingerprint(sorted(data.fingerprints.values()))


def train_and_score(
    experiment: Experiment,
    folder: RunFolder,
    data: TaskData,
    *,
    device: torch.device,
    callbacks: Sequence[Callback],
    interrupted: Callable[[], bool],
    workers: distributed.WorkerGroup = distributed.SINGLE_WORKER,
) -> TrainingResult:
    """Train to the end, select the weights, score them and write the model card.

    Raises InterruptionError after saving when `interrupted` returns true.
    """
    task, config = build_task(experiment), experiment.training
    _warn_about_slow_settings(config, device)
    write_environment(folder, data, seed=config.seed, device=device, num_workers=workers.world_size)
    setup = task.setup_training(data, device=device)
    state = prepare_state(setup, config, folder.checkpoints, workers, device=device)
    callback = combine_callbacks([JsonlCallback(folder.metrics), *callbacks])
    run_steps(
        state,
        config,
        loss_function=setup.loss_function,
        validator=validate_on_all_cores(setup.validator, workers),
        callback=callback,
        device=device,
        interrupted=interrupted,
        workers=workers,
    )
    callback(EndEvent(state.progress.step))
    state = gather_shards(state, setup)
    with distributed.all_cores(workers):
        selected, selection = select_weights(state, setup.final_validator, interrupted=interrupted, callback=callback)
        callback(selection)
        scores = final_scores(setup, state.progress.step, interrupted)
    progress, weights = state.progress, setup.export_weights(selected)
    result = TrainingResult(
        folder.path,
        selection.selected,
        scores,
        seconds=progress.seconds,
        steps=progress.step,
        tokens=progress.tokens,
        improving=progress.is_improving(config),
        resumed_step=state.resumed.step,
        resumed_seconds=state.resumed.seconds,
    )
    write_scores(folder, result)
    write_familiarity(folder, data)
    parameters = sum(tensor.numel() for tensor in weights.values())
    sample = setup.write_sample() if setup.write_sample else None
    description = f"{describe_model(experiment.model)}, {parameters:,} parameters"
    write_model_card(folder, data, result, task=task.description, model=description, sample=sample)
    save_tensors(folder.weights, weights)  # last: a run with weights is finished
    folder.unfinished.unlink(missing_ok=True)
    return result


def run_worker(
    here: WorkerRank,
    *,
    interruption: Callable[[], AbstractContextManager[Callable[[], bool]]] = SilentReporter.interruption,
) -> None:
    """Take part in a training that the main worker leads, to its end.

    Raises InterruptionError if any worker is interrupted, and WorkerLostError if one is lost.
    """
    with distributed.join_workers(here) as (workers, message):
        device = torch.device(here.device if message["device"] == "cuda" else message["device"])
        if device.type == "cuda":
            torch.cuda.set_device(device)
        folder = RunFolder(Path(message["folder"]))
        experiment = folder.read_config()
        try:
            task = build_task(experiment)
            data = task.prepare_data(folder, report=lambda _: None)
            if message.get("corpora", _corpora_fingerprint(data)) != _corpora_fingerprint(data):
                raise RunError("A corpus has changed since the main worker read it. Start the training again.")
            setup = task.setup_training(data, device=device)
            if "profile" in message:
                setup = use_batches(setup, workers.broadcast(None))
            with interruption() as interrupted:
                run_steps(
                    prepare_state(setup, experiment.training, folder.checkpoints, workers, device=device),
                    experiment.training,
                    loss_function=setup.loss_function,
                    validator=setup.validator,
                    callback=lambda _: None,
                    device=device,
                    interrupted=interrupted,
                    workers=workers,
                )
        except (InterruptionError, distributed.WorkerLostError):
            raise
        except Exception as error:  # of any kind: the main worker reports the reason, and it is raised again
            workers.report_failure(str(error) or type(error).__name__)
            raise
        finally:
            record_peak_memory(workers, device)


@contextmanager
def _explain_resuming(folder: RunFolder) -> Iterator[None]:
    """Add the command that continues the training to the error that ends it."""
    command = f"dragoman train --resume {quote(folder.path)}"
    try:
        yield
    except distributed.WorkerLostError as error:
        raise RunError(f"{error}. {folder.how_to_finish()}") from error
    except InterruptionError as error:
        raise StoppedError(f"{error}. {folder.how_to_finish()}") from error
    except (WriteError, KeyboardInterrupt) as error:
        if not folder.has_checkpoints():
            raise
        if isinstance(error, WriteError):
            remedy = "Free some space" if error.is_disk_full else "Make it writable"
            raise RunError(f"{error.problem}. {remedy}, and continue with: {command}") from error
        raise StoppedError(
            f"Stopped at once after the checkpoint of step {folder.last_step():,}. {folder.how_to_finish()}"
        ) from error


def _warn_about_slow_settings(config: TrainingConfig, device: torch.device) -> None:
    if config.precision == "bfloat16" and lacks_bfloat16(device):
        warn(
            "training.precision = bfloat16: this processor has no bfloat16 instructions. Matrix products are computed "
            "in float32, which is faster here.",
            ComputeTypeWarning,
        )
    if device.type == "cpu" and cpu_library.is_installed() and (reason := cpu_library.unusable_reason()) is not None:
        warn(f"Training runs without the CPU library and is slower: {reason}", ComputeTypeWarning)
