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
from dragoman.atomic import write_atomically
from dragoman.data.batching.prefetch import Ahead
from dragoman.errors import warn
from dragoman.evaluation import Score
from dragoman.models.weights import save_tensors
from dragoman.profiling.batch_selection import with_picks
from dragoman.runs.compute_type import ComputeWarning
from dragoman.runs.config import Experiment
from dragoman.runs.environment import environment
from dragoman.runs.folder import RunFolder
from dragoman.runs.model_card import About, write_card
from dragoman.runs.worker_processes import Place
from dragoman.runs.workers import all_cores, judging_on_all_cores, note_peak, team_joined
from dragoman.tasks.base import Materials, Work
from dragoman.tasks.factory import task_of
from dragoman.training.callbacks import MetricsFile, all_of
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.checkpoint_selection import choose
from dragoman.training.compilation import compile_network
from dragoman.training.config import Epochs, TrainingConfig
from dragoman.training.distributed import ALONE, Team, WorkerLostError
from dragoman.training.events import Learnt, Observer
from dragoman.training.optimizers import build_optimiser
from dragoman.training.precision import lacks_bfloat16, large_products
from dragoman.training.trainer import InterruptionError, Run, train


@dataclass(frozen=True)
class Outcome:
    """A finished run: which candidate was taken, its scores by set, and the time and tokens it took."""

    chosen: str
    scores: dict[str, list[Score]]
    seconds: float
    updates: int
    tokens: int


def fit(
    experiment: Experiment,
    folder: RunFolder,
    materials: Materials,
    *,
    device: torch.device,
    observers: list[Observer],
    interrupted: Callable[[], bool],
    team: Team = ALONE,
) -> Outcome:
    """Train from the beginning or from the latest checkpoint, to the end, with the team that this process leads.

    Raises InterruptionError where `interrupted` says so, after everything is saved.
    """
    task, config = task_of(experiment), experiment.training
    _warn_of_what_is_slower(config, device)
    _write_environment(folder, materials, seed=config.seed, device=device, workers=team.size)
    work = task.work(materials, device=device)
    run = begin_run(work, config, folder, team, device=device)
    observe = all_of([MetricsFile(folder.metrics), *observers])
    train(
        run,
        config,
        objective=work.objective,
        judge=judging_on_all_cores(work.judge, team),
        observe=observe,
        device=device,
        interrupted=interrupted,
        team=team,
    )
    observe(Learnt(run.progress.update))
    run = _whole(run, work)
    with all_cores(team):
        choice = choose(run, work.last_judge, interrupted=interrupted)
        observe(choice.event)
        scores = _final_scores(work, between=lambda: _leave(run, interrupted))
    progress = run.progress
    outcome = Outcome(choice.event.name, scores, progress.seconds, progress.update, progress.tokens)
    _write_scores(folder, outcome)
    weights = work.finished(choice.weights)
    parameters = sum(tensor.numel() for tensor in weights.values())
    about = About(experiment.model, parameters, work.specimen() if work.specimen else None)
    write_card(folder, materials, outcome, about, words=task.description)
    save_tensors(folder.weights, weights)  # last, for where they are, the run is finished
    return outcome


def assist(here: Place, *, watched: Callable[[], AbstractContextManager[Callable[[], bool]]]) -> None:
    """Take part in the training that another process leads, to its end.

    While it learns it is inside `watched`, which gives what says whether it is interrupted. Raises InterruptionError
    where any worker is, and WorkerLostError where one is gone.
    """
    with team_joined(here) as (team, told):
        device = torch.device(here.device if told["device"] == "cuda" else told["device"])
        if device.type == "cuda":
            torch.cuda.set_device(device)
        folder = RunFolder(Path(told["folder"]))
        experiment = folder.read_config()
        try:
            task = task_of(experiment)
            work = task.work(task.gather(folder, tell=lambda _: None), device=device)
            if "looked_at" in told:
                work = with_picks(work, team.agreed(None))
            with watched() as interrupted:
                train(
                    begin_run(work, experiment.training, folder, team, device=device),
                    experiment.training,
                    objective=work.objective,
                    judge=work.judge,
                    observe=lambda _: None,
                    device=device,
                    interrupted=interrupted,
                    team=team,
                )
        except (InterruptionError, WorkerLostError):
            raise
        except Exception as error:
            team.leave_note(str(error) or type(error).__name__)
            raise
        finally:
            note_peak(team, device)


def told_to_workers(folder: RunFolder, device: torch.device) -> dict[str, str]:
    """What `assist` must know."""
    return {"folder": str(folder.path.absolute()), "device": device.type}


def begin_run(
    work: Work[Any], config: TrainingConfig, folder: RunFolder, team: Team, *, device: torch.device
) -> Run[Any]:
    """What moves in a training, with batches made ahead, and in shards where they are asked for."""
    sharded = config.sharding == "full" and team.size > 1
    model = copy.deepcopy(work.model) if sharded and team.leads else work.model
    if config.recompute or sharded:
        from dragoman.training.fsdp import compute_again, shard

        if config.recompute:
            compute_again(model)
        if sharded:
            shard(model, team, device=device)
    if config.compile:
        compile_network(model, device=device, asked=config.compile)
    last = config.length.count if isinstance(config.length, Epochs) else None
    return Run(
        model=model,
        judged=work.model if model is not work.model else None,
        optimiser=build_optimiser(
            config.optimiser, model, products=large_products(config.precision, device), team=team
        ),
        stream=Ahead(work.stream, count=config.accumulate + 1, epochs=last),
        checkpoints=Checkpoints(folder.checkpoints, keep=config.keep, behind=device.type != "cpu"),
        progress=Progress(),
        name=work.name,
    )


def _whole(run: Run[Any], work: Work[Any]) -> Run[Any]:
    """A run at its end without shards, which its last checkpoint holds whole."""
    if run.judged is None:
        return run
    last = run.checkpoints.load(run.progress.update)
    return replace(run, model=work.model, judged=None, average=last.average)


def _write_environment(
    folder: RunFolder, materials: Materials, *, seed: int, device: torch.device, workers: int
) -> None:
    """Where the run began; going on elsewhere does not change it."""
    if not folder.environment.exists():
        facts = environment(
            device=device,
            workers=workers,
            seed=seed,
            tokenizer=materials.tokenizer,
            corpora=materials.fingerprints,
        )
        write_atomically(folder.environment, json.dumps(facts, indent=2) + "\n")


def _warn_of_what_is_slower(config: TrainingConfig, device: torch.device) -> None:
    if config.precision == "bfloat16" and lacks_bfloat16(device):
        warn(
            "training.precision = bfloat16: this processor has no instructions for it; products are computed in "
            "float32, which is faster here",
            ComputeWarning,
        )
    if device.type == "cpu" and cpu_library.is_installed() and (fault := cpu_library.fault()) is not None:
        warn(f"PyTorch trains alone, and slower: {fault}", ComputeWarning)


def _leave(run: Run[Any], interrupted: Callable[[], bool]) -> None:
    if interrupted():
        raise InterruptionError(run.progress.update)


def _final_scores(work: Work[Any], *, between: Callable[[], None]) -> dict[str, list[Score]]:
    scores: dict[str, list[Score]] = {}
    with torch.inference_mode():
        for name, score in work.scores.items():
            between()
            scores[name] = list(score())
    return scores


def _write_scores(folder: RunFolder, outcome: Outcome) -> None:
    tree = {
        "weights": outcome.chosen,
        "seconds": round(outcome.seconds, 1),
        "updates": outcome.updates,
        "target_tokens": outcome.tokens,
        "scores": {name: [asdict(score) for score in scores] for name, scores in outcome.scores.items()},
    }
    write_atomically(folder.scores, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
