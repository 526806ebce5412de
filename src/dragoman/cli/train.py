"""`dragoman train`: train a model or continue a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import Assignments, ConfigArgument, DataDir, DeviceOption, InitFrom, corpus_options

if TYPE_CHECKING:
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.train import TrainingResult
    from dragoman.tasks.config import Experiment
    from dragoman.training.launch import WorkerRank


@corpus_options(into="corpora")
def train(
    config: ConfigArgument = None,
    *,
    corpora: dict[str, Path],
    init_from: InitFrom = None,
    output_dir: Annotated[
        Path | None, typer.Option("--output-dir", "--out", help="Folder of the new run; must not exist.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    data_dir: DataDir = None,
    assignments: Assignments = None,
    device: DeviceOption = None,
    tensorboard: Annotated[bool, typer.Option(help="Also write TensorBoard events into the run folder.")] = False,
) -> None:
    """Train a model, or continue a run.

    `dragoman train --source train.en --target train.de --out runs/en-de` is enough. --text trains a language model;
    every other task needs a configuration file. --init-from fine-tunes a translator on other text.
    """
    from dragoman.training.launch import worker_rank

    here = worker_rank()
    if here is not None and here.rank > 0:
        return _train_as_worker(here)
    if output_dir is not None and here is not None and _restarted(output_dir):
        return _resume(output_dir, device=device, tensorboard=tensorboard)
    if resume is not None:
        _check_nothing_else((config, *corpora.values(), init_from, output_dir, data_dir, assignments))
        return _resume(resume, device=device, tensorboard=tensorboard)
    from dragoman.cli.training_display import TerminalReporter, show_choices, status
    from dragoman.device import choose_device, describe_device
    from dragoman.errors import ConfigError
    from dragoman.runs.config import corpus_settings, read_settings
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.train import resolve_experiment, train_in_folder

    if output_dir is None:
        raise ConfigError("The output folder is missing. Give --output-dir, for example --output-dir runs/en-de.")
    chosen_device = choose_device(device)
    folder = RunFolder(output_dir)
    folder.check_new()
    settings = settings_of(read_settings(config, assignments or []), corpus_settings(**corpora), init_from)
    with status() as report:
        experiment, choices = resolve_experiment(
            settings,
            complete=config is not None,
            device=chosen_device,
            data_dir=data_dir,
            where=str(config or ""),
            report=report,
        )
    folder.create()
    with folder.remove_on_error():
        folder.write_config(experiment)
        show_choices(choices, device=describe_device(chosen_device))
        result = train_in_folder(
            folder, experiment, device=chosen_device, tensorboard=tensorboard, reporter=TerminalReporter()
        )
    return _show_result(result, folder, experiment)


def settings_of(settings: dict[str, Any], corpora: dict[str, Any], init_from: Path | None) -> dict[str, Any]:
    """Merge the settings of a configuration file with those of the options."""
    from dragoman.config import merge

    start = {} if init_from is None else {"init_from": str(init_from)}
    return merge(merge(settings, corpora), start)


def _check_nothing_else(given: tuple[Any, ...]) -> None:
    from dragoman.errors import ConfigError

    if any(value is not None for value in given):
        raise ConfigError("--resume uses the run's own configuration and corpora; leave the other options out")


def _resume(path: Path, *, device: str | None, tensorboard: bool) -> None:
    """Continue the training in a run folder."""
    from dragoman.runs.folder import RunFolder
    from dragoman.training.launch import start_workers_early

    folder = RunFolder(path)
    with start_workers_early(folder.expected_workers()) as early:
        from dragoman.cli.training_display import TerminalReporter, show_choices
        from dragoman.device import choose_device, describe_device
        from dragoman.runs.train import read_unfinished, train_in_folder

        chosen_device = choose_device(device)
        experiment = read_unfinished(folder)
        show_choices([], device=describe_device(chosen_device))
        result = train_in_folder(
            folder,
            experiment,
            device=chosen_device,
            tensorboard=tensorboard,
            reporter=TerminalReporter(),
            early=early,
        )
    _show_result(result, folder, experiment)


def _show_result(result: TrainingResult, folder: RunFolder, experiment: Experiment) -> None:
    """Print the result of the training and the command that uses it."""
    from dragoman.cli.training_display import show_result
    from dragoman.tasks.factory import build_task

    command = build_task(experiment).description.command.replace("RUN", str(folder.path))
    show_result(result, command=command)


def _train_as_worker(here: WorkerRank) -> None:
    """Train as a worker of another process, without output."""
    import signal
    import warnings

    from dragoman.cli.signals import on_signals
    from dragoman.errors import DragomanError
    from dragoman.runs.train import run_worker

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a worker that waits for its work has nothing to save
    try:
        run_worker(here, interruption=lambda: on_signals(notice=b""))
    except DragomanError as error:
        raise typer.Exit(2) from error


def _restarted(output_dir: Path) -> bool:
    """Return whether torchrun restarted this command after a worker was lost."""
    from dragoman.runs.folder import RunFolder

    if not RunFolder(output_dir).config.is_file():
        return False
    from dragoman.training.distributed import was_started_here

    return was_started_here(output_dir)
