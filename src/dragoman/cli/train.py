"""`dragoman train`: train a model or continue a run."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import options
from dragoman.cli.signals import on_signals
from dragoman.cli.training_display import TerminalReporter, show_result
from dragoman.cli.verb_command import Outcome
from dragoman.errors import ConfigError, DragomanError

if TYPE_CHECKING:
    from dragoman.runs.model_card import TrainingResult
    from dragoman.training.launch import WorkerRank


@options.shared_options(options.CORPORA, into="corpora")
@options.training_options
def train(
    config: options.ConfigArgument = None,
    *,
    corpora: dict[str, Any],
    init_from: options.InitFromOption = None,
    output_dir: Annotated[Path | None, typer.Option("--output-dir", "--out", help="Folder of the new run.")] = None,
    training: dict[str, Any],
    resume: Annotated[
        Path | None, typer.Option(help="Continue this run; --max-steps or --max-epochs changes its length.")
    ] = None,
    data_dir: options.DataDir = None,
    assignments: options.Assignments = None,
    device: options.DeviceOption = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
) -> Outcome | None:
    """Train a model, or continue a run.

    `dragoman train --source train.en --target train.de --output-dir runs/en-de` is enough, or `dragoman train pairs.tsv
    --output-dir runs/en-de` for a corpus in one file. --text trains a language model; every other task needs a
    configuration file. --init-from fine-tunes a translator or a language model on other text.
    """
    from dragoman.training.launch import worker_rank

    worker = worker_rank()
    if worker is not None and worker.rank > 0:
        _train_as_worker(worker)
        return None
    if output_dir is not None and worker is not None and _is_restarted(output_dir):
        return _resume(output_dir, overrides={}, device=device, tensorboard=tensorboard)
    if resume is not None:
        if corpora or any(one is not None for one in (config, init_from, output_dir, data_dir)):
            raise ConfigError("--resume uses the configuration and corpora of the run. Leave the other options out.")
        overrides = options.merge_assignments(training, assignments or [])
        return _resume(resume, overrides=overrides, device=device, tensorboard=tensorboard)
    if output_dir is None:
        raise ConfigError("The output folder is missing. Give --output-dir, for example --output-dir runs/en-de.")
    from dragoman.config_errors import name_origins
    from dragoman.runs.train import train

    with name_origins(options.origins(training, assignments or [])):
        result = train(
            config,
            output_dir=output_dir,
            **corpora,
            init_from=init_from,
            overrides=options.merge_assignments(training, assignments or []),
            data_dir=data_dir,
            device=device,
            tensorboard=tensorboard,
            reporter=TerminalReporter(),
        )
    return _outcome(result)


def _outcome(result: TrainingResult) -> Outcome:
    return Outcome(result.to_dict, lambda: show_result(result))


def _resume(path: Path, *, overrides: dict[str, Any], device: str | None, tensorboard: bool) -> Outcome:
    """Continue the training in a run folder; workers start while this process imports PyTorch."""
    from dragoman.runs.folder import RunFolder
    from dragoman.training.launch import start_workers_early

    with start_workers_early(RunFolder(path).expected_workers()) as early:
        from dragoman.runs.train import resume

        result = resume(
            path,
            overrides=overrides,
            device=device,
            tensorboard=tensorboard,
            reporter=TerminalReporter(),
            early=early,
        )
    return _outcome(result)


def _train_as_worker(worker: WorkerRank) -> None:
    """Train as a worker of another process, without output."""
    from dragoman.runs.train_in_folder import run_worker

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a worker that waits for its work has nothing to save
    try:
        run_worker(worker, interruption=lambda: on_signals(notice=b""))
    except DragomanError as error:
        raise typer.Exit(2) from error


def _is_restarted(output_dir: Path) -> bool:
    """Return whether torchrun restarted this command after a worker was lost."""
    from dragoman.runs.folder import RunFolder

    if not RunFolder(output_dir).config.is_file():
        return False
    from dragoman.training.distributed import was_started_here

    return was_started_here(output_dir)
