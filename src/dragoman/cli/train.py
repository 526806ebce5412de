"""`dragoman train`: train a model or continue a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import (
    Begin,
    DataFolder,
    Device,
    Prepared,
    RunningText,
    Settings,
    SourceText,
    TargetText,
    ValidSource,
    ValidTarget,
    ValidText,
)

if TYPE_CHECKING:
    import torch

    from dragoman.runs.choices import Choice
    from dragoman.runs.config import Experiment
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.train import TrainingResult
    from dragoman.runs.worker_processes import WorkerProcesses, WorkerRank


def train(
    config: Settings = None,
    *,
    source: SourceText = None,
    target: TargetText = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    text: RunningText = None,
    valid_text: ValidText = None,
    prepared: Prepared = None,
    begin: Begin = None,
    out: Annotated[
        Path | None, typer.Option("--output-dir", "--out", help="Folder of the new run; must not exist.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    data: DataFolder = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as training.seed=2. (repeatable)")
    ] = None,
    device: Device = None,
    tensorboard: Annotated[bool, typer.Option(help="Also write TensorBoard events into the run folder.")] = False,
) -> None:
    """Train a model, or continue a run.

    `dragoman train --source train.en --target train.de --out runs/en-de` is enough. --text trains a language model;
    every other task needs a configuration file. --init-from fine-tunes a translator on other text.
    """
    from dragoman.runs.worker_processes import worker_rank

    here = worker_rank()
    if here is not None and here.rank > 0:
        return _assist(here)
    texts = (source, target, valid_source, valid_target)
    given = (config, *texts, text, valid_text, prepared, begin, out, data, assignments)
    if out is not None and here is not None and _restarted(out):
        return _go_on(out, given=(), device=device, tensorboard=tensorboard)
    if resume is not None:
        return _go_on(resume, given=given, device=device, tensorboard=tensorboard)
    from dragoman.cli.training_display import show_choices
    from dragoman.runs.device import choose_device, describe_device

    chosen_device = choose_device(device)
    folder = _free_folder(out)
    corpora = corpora_of(texts, (text, valid_text), prepared)
    begun = {} if begin is None else {"init_from": str(begin)}
    experiment, choices = asked_for(config, corpora | begun, data, assignments or [], chosen_device)
    folder.create()
    with folder.remove_on_error():
        folder.write_config(experiment)
        show_choices(choices, device=describe_device(chosen_device))
        outcome = train_in(folder, experiment, device=chosen_device, tensorboard=tensorboard)
    return _ended(outcome, folder, experiment)


def _go_on(resume: Path, *, given: tuple[Any, ...], device: str | None, tensorboard: bool) -> None:
    """Continue the training in a run folder."""
    from dragoman.errors import ConfigError
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.worker_processes import start_workers_early

    if any(value is not None for value in given):
        raise ConfigError("--resume goes on with the run's own configuration and corpora; leave the other options out")
    folder = RunFolder(resume)
    with start_workers_early(folder) as early:
        from dragoman.cli.training_display import show_choices
        from dragoman.runs.device import choose_device, describe_device

        chosen_device = choose_device(device)
        experiment = _begun(folder)
        show_choices([], device=describe_device(chosen_device))
        outcome = train_in(folder, experiment, device=chosen_device, tensorboard=tensorboard, early=early)
    _ended(outcome, folder, experiment)


def _ended(outcome: TrainingResult, folder: RunFolder, experiment: Experiment) -> None:
    """Print the result of the training and the command that uses it."""
    from dragoman.cli.training_display import show_outcome
    from dragoman.tasks.factory import build_task

    show_outcome(outcome, folder=folder.path, command=build_task(experiment).description.command)


def _assist(here: WorkerRank) -> None:
    """Train as a worker of another process, without output."""
    import signal
    import warnings

    from dragoman.cli.signals import on_signals
    from dragoman.errors import DragomanError
    from dragoman.runs.train import run_worker

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it waits to be told, nothing is lost and nothing is to be said
    try:
        run_worker(here, watched=lambda: on_signals(notice=b""))
    except DragomanError as error:
        raise typer.Exit(2) from error


def _restarted(out: Path) -> bool:
    """Return whether torchrun restarted this command after a worker was lost."""
    from dragoman.runs.folder import RunFolder

    if not RunFolder(out).config.is_file():
        return False
    from dragoman.runs.workers import was_started_here

    return was_started_here(out)


def train_in(
    folder: RunFolder,
    experiment: Experiment,
    *,
    device: torch.device,
    tensorboard: bool = False,
    early: WorkerProcesses | None = None,
) -> TrainingResult:
    """Train in a new run folder with progress; a signal saves a checkpoint and prints how to continue."""
    from dragoman.cli.signals import on_signals
    from dragoman.cli.training_display import (
        TrainingDisplay,
        show_changes,
        show_estimate,
        show_materials,
        show_workers,
        status,
    )
    from dragoman.profiling.estimate import blueprint, estimate
    from dragoman.runs.environment import environment_changes
    from dragoman.runs.train import train_run, worker_message
    from dragoman.runs.workers import choose_num_workers, lead_workers
    from dragoman.tasks.factory import build_task
    from dragoman.training.callbacks import TensorBoardCallback

    if experiment.training.compile:
        from dragoman.training.step import check_compilable

        check_compilable(device, mode=experiment.training.compile)
    observers: list[Any] = [TensorBoardCallback(folder.path / "tensorboard")] if tensorboard else []
    task = build_task(experiment)
    with folder.locked():
        with status() as tell:
            materials = task.prepare_data(folder, tell=tell)
        show_materials(materials)
        if experiment.training.batch_tokens == "auto":
            experiment = _with_budget(folder, experiment, device=device)
        show_estimate(estimate(experiment, folder, materials, device=device))
        network = blueprint(experiment, folder)
        size = choose_num_workers(experiment.training, network, tokens=materials.tokens, device=device)
        with (
            lead_workers(size, told=worker_message(folder, device), early=early) as team,
            on_signals() as interrupted,
            TrainingDisplay(unit=task.description.unit) as display,
        ):
            show_workers(team.world_size)
            show_changes(environment_changes(folder.read_environment(), device=device, workers=team.world_size))
            observers.append(display)
            with _way_to_go_on(folder):
                return train_run(
                    experiment,
                    folder,
                    materials,
                    device=device,
                    observers=observers,
                    interrupted=interrupted,
                    team=team,
                )


@contextmanager
def _way_to_go_on(folder: RunFolder) -> Iterator[None]:
    """Add the command that continues the training to the error of an interruption."""
    from dragoman.errors import RunError
    from dragoman.training.distributed import WorkerLostError
    from dragoman.training.trainer import InterruptionError

    command = f"dragoman train --resume {folder.path}"
    try:
        yield
    except (InterruptionError, WorkerLostError) as error:
        raise RunError(f"{error}. Go on with: {command}") from error
    except KeyboardInterrupt as error:
        raise RunError(f"left at once. Go on from the last checkpoint with: {command}") from error


def _with_budget(folder: RunFolder, experiment: Experiment, *, device: torch.device) -> Experiment:
    """Choose the token budget, write it to the run's configuration, and return the configuration."""
    from dragoman.cli.training_display import show_budget, status
    from dragoman.runs.token_budget import resolve_batch_tokens

    with status() as tell:
        found, sentence = resolve_batch_tokens(experiment, device=device, tell=tell, tokenizer_of=folder)
    folder.write_config(found)
    show_budget(sentence)
    return found


def _begun(folder: RunFolder) -> Experiment:
    """Return the configuration of a run to continue. Raises RunError where its training has ended."""
    from dragoman.errors import RunError
    from dragoman.tasks.factory import build_task

    experiment = folder.read_config()
    if folder.weights.exists():
        command = build_task(experiment).description.command.replace("RUN", str(folder.path))
        raise RunError(f"{folder.path}: its training has ended; use it with: {command}")
    return experiment


def asked_for(
    config: Path | None,
    given: dict[str, Any],
    data: Path | None,
    assignments: list[str],
    device: torch.device,
) -> tuple[Experiment, list[Choice]]:
    """Return the configuration to train: from a file, or chosen automatically."""
    from dragoman.cli.training_display import status
    from dragoman.config import merge
    from dragoman.errors import ConfigError
    from dragoman.runs.auto_config import auto_configure
    from dragoman.runs.auto_config_text import auto_configure_text
    from dragoman.runs.config import parse_experiment, read_settings, resolve_corpus_paths
    from dragoman.runs.finetune import auto_configure_finetuning
    from dragoman.runs.init_from import apply_init_from

    tree = read_settings(config, assignments)
    if data is not None:
        tree = resolve_corpus_paths(tree, data)
    tree = merge(tree, given)
    if config is not None:
        return parse_experiment(apply_init_from(tree), where=str(config)), []
    if data is not None:
        raise ConfigError("--data has no effect without a configuration file; leave it out")
    if "data" not in tree:
        raise ConfigError(
            "nothing to learn from; give --source and --target, --text, or a configuration file that names a corpus"
        )
    is_text = any(corpus["kind"] == "text" for corpus in given.get("data", {}).values())
    if "init_from" in given and is_text:
        raise ConfigError(
            "--init-from fine-tunes a translator, and --text is for a language model; leave one of them out"
        )
    with status() as tell:
        tell("reading and cleaning the corpus")
        if "init_from" in tree:
            return auto_configure_finetuning(tree)
        return (
            auto_configure_text(tree, device=device)
            if is_text
            else auto_configure(apply_init_from(tree), device=device)
        )


def corpora_of(pairs: tuple[Path | None, ...], texts: tuple[Path | None, ...], prepared: Path | None) -> dict[str, Any]:
    """Return the `data` configuration of the corpus options. Raises ConfigError where they conflict."""
    from dragoman.errors import ConfigError

    if prepared is not None and (any(pairs) or any(texts)):
        raise ConfigError(
            "--prepared is text that was prepared, to learn from and to validate on; leave the others out"
        )
    if prepared is not None:
        return {"data": {"train": {"kind": "prepared", "folder": str(prepared)}}}
    if any(pairs) and any(texts):
        raise ConfigError("--text is for a language model, and --source for a translator; leave one of them out")
    return pairs_of(*pairs) or _texts(*texts)


def _texts(train: Path | None, valid: Path | None) -> dict[str, Any]:
    """Return the `data` configuration of the text corpus options."""
    from dragoman.errors import ConfigError

    if train is None and valid is not None:
        raise ConfigError("--valid-text needs --text, to learn from")
    given = {"train": train, "valid": valid}
    corpora = {name: {"kind": "text", "path": str(path)} for name, path in given.items() if path is not None}
    return {"data": corpora} if corpora else {}


def pairs_of(
    source: Path | None, target: Path | None, valid_source: Path | None, valid_target: Path | None
) -> dict[str, Any]:
    """Return the `data` configuration of the parallel corpus options."""
    from dragoman.errors import ConfigError

    corpora = {}
    for name, one, other in (("train", source, target), ("valid", valid_source, valid_target)):
        if (one is None) != (other is None):
            before = "" if name == "train" else f"{name}-"
            raise ConfigError(
                f"the {name} corpus needs both sides; give --{before}source and --{before}target, aligned line by line"
            )
        if one is not None:
            corpora[name] = {"kind": "files", "source": str(one), "target": str(other)}
    return {"data": corpora} if corpora else {}


def _free_folder(out: Path | None) -> RunFolder:
    """Return the folder to write to, checked before any long work."""
    from dragoman.errors import ConfigError
    from dragoman.runs.folder import RunFolder

    if out is None:
        raise ConfigError("where should the run be written? Give a folder by --out, for example --out runs/en-de")
    folder = RunFolder(out)
    folder.check_new()
    return folder
