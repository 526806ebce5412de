"""From materials to a finished run: train, choose the weights, score, write the card. No task is known here."""

import copy
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dragoman import cpu_library
from dragoman.data.batching.prefetch import PrefetchingStream
from dragoman.errors import warn
from dragoman.evaluation import Score
from dragoman.runs.worker_processes import WorkerRank
from dragoman.tasks.factory import build_task
from dragoman.runs.model_card import ModelSummary, write_model_card
from dragoman.runs.compute_type import ComputeTypeWarning
from dragoman.runs.config import Experiment
from dragoman.runs.environment import collect_environment
from dragoman.profiling.batch_selection import with_picks
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import TaskData, TrainingSetup
from dragoman.runs.workers import all_cores, validate_on_all_cores, record_peak_memory, join_workers
from dragoman.atomic import write_atomically
from dragoman.models.weights import save_tensors
from dragoman.training.checkpoint import CheckpointStore, Progress
from dragoman.training.step import compile_model
from dragoman.training.config import Epochs, TrainingConfig
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup, WorkerLostError
from dragoman.training.callbacks import EndEvent, Callback
from dragoman.training.trainer import InterruptionError, TrainingState, train
from dragoman.training.callbacks import JsonlCallback, combine_callbacks
from dragoman.training.optimizers import build_optimizer
from dragoman.training.precision import lacks_bfloat16, output_matmul_dtype
from dragoman.training.weight_selection import select_weights


@dataclass(frozen=True)
class TrainingResult:
    """A finished run: which candidate was taken, its scores by set, and the time and tokens it took."""

    chosen: str
    scores: dict[str, list[Score]]
    seconds: float
    updates: int
    tokens: int


def train_run(
    experiment: Experiment,
    folder: RunFolder,
    materials: TaskData,
    *,
    device: torch.device,
    observers: list[Callback],
    interrupted: Callable[[], bool],
    team: WorkerGroup = SINGLE_WORKER,
) -> TrainingResult:
    """Train from the beginning or from the latest checkpoint, to the end, with the team that this process leads.

    Raises InterruptionError where `interrupted` says so, after everything is saved.
    """
    task, config = build_task(experiment), experiment.training
    _warn_about_slow_settings(config, device)
    _write_environment(folder, materials, seed=config.seed, device=device, workers=team.world_size)
    work = task.setup_training(materials, device=device)
    run = prepare_run(work, config, folder, team, device=device)
    observe = combine_callbacks([JsonlCallback(folder.metrics), *observers])
    train(
        run,
        config,
        loss_function=work.loss_function,
        validator=validate_on_all_cores(work.validator, team),
        callback=observe,
        device=device,
        interrupted=interrupted,
        workers=team,
    )
    observe(EndEvent(run.progress.step))
    run = _gather_shards(run, work)
    with all_cores(team):
        choice = select_weights(run, work.final_validator, interrupted=interrupted)
        observe(choice.event)
        scores = _final_scores(work, between=lambda: _raise_if_interrupted(run, interrupted))
    progress = run.progress
    outcome = TrainingResult(choice.event.selected, scores, progress.seconds, progress.step, progress.tokens)
    _write_scores(folder, outcome)
    weights = work.export_weights(choice.weights)
    parameters = sum(tensor.numel() for tensor in weights.values())
    about = ModelSummary(experiment.model, parameters, work.write_sample() if work.write_sample else None)
    write_model_card(folder, materials, outcome, about, words=task.description)
    save_tensors(folder.weights, weights)  # last, for where they are, the run is finished
    return outcome


def run_worker(here: WorkerRank, *, watched: Callable[[], AbstractContextManager[Callable[[], bool]]]) -> None:
    """Take part in the training that another process leads, to its end.

    While it learns it is inside `watched`, which gives what says whether it is interrupted. Raises InterruptionError
    where any worker is, and WorkerLostError where one is gone.
    """
    with join_workers(here) as (team, told):
        device = torch.device(here.device if told["device"] == "cuda" else told["device"])
        if device.type == "cuda":
            torch.cuda.set_device(device)
        folder = RunFolder(Path(told["folder"]))
        experiment = folder.read_config()
        try:
            task = build_task(experiment)
            work = task.setup_training(task.prepare_data(folder, tell=lambda _: None), device=device)
            if "looked_at" in told:
                work = with_picks(work, team.broadcast(None))
            with watched() as interrupted:
                train(
                    prepare_run(work, experiment.training, folder, team, device=device),
                    experiment.training,
                    loss_function=work.loss_function,
                    validator=work.validator,
                    callback=lambda _: None,
                    device=device,
                    interrupted=interrupted,
                    workers=team,
                )
        except (InterruptionError, WorkerLostError):
            raise
        except Exception as error:
            team.report_failure(str(error) or type(error).__name__)
            raise
        finally:
            record_peak_memory(team, device)


def worker_message(folder: RunFolder, device: torch.device) -> dict[str, str]:
    """What `assist` must know."""
    return {"folder": str(folder.path.absolute()), "device": device.type}


def prepare_run(
    work: TrainingSetup[Any], config: TrainingConfig, folder: RunFolder, team: WorkerGroup, *, device: torch.device
) -> TrainingState[Any]:
    """What moves in a training, with batches made ahead, and in shards where they are asked for."""
    sharded = config.sharding == "full" and team.world_size > 1
    model = copy.deepcopy(work.model) if sharded and team.is_main else work.model
    if config.gradient_checkpointing or sharded:
        from dragoman.training.fsdp import enable_gradient_checkpointing, shard_model

        if config.gradient_checkpointing:
            enable_gradient_checkpointing(model)
        if sharded:
            shard_model(model, team, device=device)
    if config.compile:
        compile_model(model, device=device, mode=config.compile)
    last = config.length.count if isinstance(config.length, Epochs) else None
    return TrainingState(
        model=model,
        validation_model=work.model if model is not work.model else None,
        optimizer=build_optimizer(
            config.optimizer, model, matmul_dtype=output_matmul_dtype(config.precision, device), workers=team
        ),
        stream=PrefetchingStream(work.stream, count=config.grad_accumulation + 1, epochs=last),
        checkpoints=CheckpointStore(folder.checkpoints, keep=config.keep_checkpoints, asynchronous=device.type != "cpu"),
        progress=Progress(),
        describe_rows=work.describe_rows,
    )


def _gather_shards(run: TrainingState[Any], work: TrainingSetup[Any]) -> TrainingState[Any]:
    """A run at its end without shards, which its last checkpoint holds whole."""
    if run.validation_model is None:
        return run
    last = run.checkpoints.load(run.progress.step)
    return replace(run, model=work.model, validation_model=None, ema=last.ema)


def _write_environment(
    folder: RunFolder, materials: TaskData, *, seed: int, device: torch.device, workers: int
) -> None:
    """Where the run began; going on elsewhere does not change it."""
    if not folder.environment.exists():
        facts = collect_environment(
            device=device,
            workers=workers,
            seed=seed,
            tokenizer=materials.tokenizer,
            corpora=materials.fingerprints,
        )
        write_atomically(folder.environment, json.dumps(facts, indent=2) + "\n")


def _warn_about_slow_settings(config: TrainingConfig, device: torch.device) -> None:
    if config.precision == "bfloat16" and lacks_bfloat16(device):
        warn(
            "training.precision = bfloat16: this processor has no instructions for it; products are computed in "
            "float32, which is faster here",
            ComputeTypeWarning,
        )
    if device.type == "cpu" and cpu_library.is_installed() and (fault := cpu_library.fault()) is not None:
        warn(f"PyTorch trains alone, and slower: {fault}", ComputeTypeWarning)


def _raise_if_interrupted(run: TrainingState[Any], interrupted: Callable[[], bool]) -> None:
    if interrupted():
        raise InterruptionError(run.progress.step)


def _final_scores(work: TrainingSetup[Any], *, between: Callable[[], None]) -> dict[str, list[Score]]:
    scores: dict[str, list[Score]] = {}
    with torch.inference_mode():
        for name, score in work.scorers.items():
            between()
            scores[name] = list(score())
    return scores


def _write_scores(folder: RunFolder, outcome: TrainingResult) -> None:
    tree = {
        "weights": outcome.chosen,
        "seconds": round(outcome.seconds, 1),
        "updates": outcome.updates,
        "target_tokens": outcome.tokens,
        "scores": {name: [asdict(score) for score in scores] for name, scores in outcome.scores.items()},
    }
    write_atomically(folder.scores, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
