"""`dragoman train`: learn a model from a corpus, or go on with a run."""

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
    from dragoman.runs.train import Outcome
    from dragoman.runs.worker_processes import Assistants, Place


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
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the run; must not exist yet.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    data: DataFolder = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as training.seed=2. May be repeated.")
    ] = None,
    device: Device = None,
    tensorboard: Annotated[bool, typer.Option(help="Also write TensorBoard events into the run folder.")] = False,
) -> None:
    """Train a model: `dragoman train --source train.en --target train.de --out runs/en-de` is enough.

    With --text a language model is trained; every other task takes a configuration file. With --from a translator is
    trained further on other text.
    """
    from dragoman.runs.worker_processes import place

    here = place()
    if here is not None and here.rank > 0:
        return _assist(here)
    texts = (source, target, valid_source, valid_target)
    given = (config, *texts, text, valid_text, prepared, begin, out, data, assignments)
    if out is not None and here is not None and _restarted(out):
        return _go_on(out, given=(), device=device, tensorboard=tensorboard)
    if resume is not None:
        return _go_on(resume, given=given, device=device, tensorboard=tensorboard)
    from dragoman.cli.training_display import show_choices
    from dragoman.runs.device import choose_device, describe

    chosen_device = choose_device(device)
    folder = _free_folder(out)
    corpora = corpora_of(texts, (text, valid_text), prepared)
    begun = {} if begin is None else {"start": str(begin)}
    experiment, choices = asked_for(config, corpora | begun, data, assignments or [], chosen_device)
    folder.begin()
    with folder.gone_unless_begun():
        folder.write_config(experiment)
        show_choices(choices, device=describe(chosen_device))
        outcome = train_in(folder, experiment, device=chosen_device, tensorboard=tensorboard)
    return _ended(outcome, folder, experiment)


def _go_on(resume: Path, *, given: tuple[Any, ...], device: str | None, tensorboard: bool) -> None:
    """Train in a folder that a run was begun in, to its end."""
    from dragoman.errors import ConfigError
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.worker_processes import on_their_way

    if any(value is not None for value in given):
        raise ConfigError("--resume goes on with the run's own configuration and corpora; leave the other options out")
    folder = RunFolder(resume)
    with on_their_way(folder) as early:
        from dragoman.cli.training_display import show_choices
        from dragoman.runs.device import choose_device, describe

        chosen_device = choose_device(device)
        experiment = _begun(folder)
        show_choices([], device=describe(chosen_device))
        outcome = train_in(folder, experiment, device=chosen_device, tensorboard=tensorboard, early=early)
    _ended(outcome, folder, experiment)


def _ended(outcome: Outcome, folder: RunFolder, experiment: Experiment) -> None:
    """Say what came of it, and what it can be used for."""
    from dragoman.cli.training_display import show_outcome
    from dragoman.tasks.factory import task_of

    show_outcome(outcome, folder=folder.path, command=task_of(experiment).description.command)


def _assist(here: Place) -> None:
    """Learn beside the process that leads; what there is to say, it says."""
    import signal
    import warnings

    from dragoman.cli.signals import on_signals
    from dragoman.errors import DragomanError
    from dragoman.runs.train import assist

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it waits to be told, nothing is lost and nothing is to be said
    try:
        assist(here, watched=lambda: on_signals(notice=b""))
    except DragomanError as error:
        raise typer.Exit(2) from error


def _restarted(out: Path) -> bool:
    """Whether torchrun starts a command again that began a run before a worker was lost."""
    from dragoman.runs.folder import RunFolder

    if not RunFolder(out).config.is_file():
        return False
    from dragoman.runs.workers import began_here

    return began_here(out)


def train_in(
    folder: RunFolder,
    experiment: Experiment,
    *,
    device: torch.device,
    tensorboard: bool = False,
    early: Assistants | None = None,
) -> Outcome:
    """Train in a folder that `begin` made, showing what happens; a signal saves and leaves with the way to go on."""
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
    from dragoman.runs.environment import what_changed
    from dragoman.runs.train import fit, told_to_workers
    from dragoman.runs.workers import team_of, workers_for
    from dragoman.tasks.factory import task_of
    from dragoman.training.callbacks import TensorBoard

    if experiment.training.compile:
        from dragoman.training.compilation import require_compilable

        require_compilable(device, asked=experiment.training.compile)
    observers: list[Any] = [TensorBoard(folder.path / "tensorboard")] if tensorboard else []
    task = task_of(experiment)
    with folder.claimed():
        with status() as tell:
            materials = task.gather(folder, tell=tell)
        show_materials(materials)
        if experiment.training.batch_tokens == "auto":
            experiment = _with_budget(folder, experiment, device=device)
        show_estimate(estimate(experiment, folder, materials, device=device))
        network = blueprint(experiment, folder)
        size = workers_for(experiment.training, network, tokens=materials.tokens, device=device)
        with (
            team_of(size, told=told_to_workers(folder, device), early=early) as team,
            on_signals() as interrupted,
            TrainingDisplay(unit=task.description.unit) as display,
        ):
            show_workers(team.size)
            show_changes(what_changed(folder.read_environment(), device=device, workers=team.size))
            observers.append(display)
            with _way_to_go_on(folder):
                return fit(
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
    """Whatever interrupts the training inside is said with the command that goes on with it."""
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
    """The experiment with the token budget that was found for it, which the folder then says too."""
    from dragoman.cli.training_display import show_budget, status
    from dragoman.runs.token_budget import with_budget

    with status() as tell:
        found, sentence = with_budget(experiment, device=device, tell=tell, tokenizer_of=folder)
    folder.write_config(found)
    show_budget(sentence)
    return found


def _begun(folder: RunFolder) -> Experiment:
    """What a run learns. Raises RunError where its training has ended."""
    from dragoman.errors import RunError
    from dragoman.tasks.factory import task_of

    experiment = folder.read_config()
    if folder.weights.exists():
        command = task_of(experiment).description.command.replace("RUN", str(folder.path))
        raise RunError(f"{folder.path}: its training has ended; use it with: {command}")
    return experiment


def asked_for(
    config: Path | None,
    given: dict[str, Any],
    data: Path | None,
    assignments: list[str],
    device: torch.device,
) -> tuple[Experiment, list[Choice]]:
    """What to train: as a configuration file says, or as is chosen where there is none."""
    from dragoman.cli.training_display import status
    from dragoman.config import merge
    from dragoman.errors import ConfigError
    from dragoman.runs.auto_config import complete
    from dragoman.runs.auto_config_text import complete_text
    from dragoman.runs.config import in_folder, read_tree, to_experiment
    from dragoman.runs.finetune import complete_start
    from dragoman.runs.init_from import with_start

    tree = read_tree(config, assignments)
    if data is not None:
        tree = in_folder(tree, data)
    tree = merge(tree, given)
    if config is not None:
        return to_experiment(with_start(tree), where=str(config)), []
    if data is not None:
        raise ConfigError("--data has no effect without a configuration file; leave it out")
    if "data" not in tree:
        raise ConfigError(
            "nothing to learn from; give --source and --target, --text, or a configuration file that names a corpus"
        )
    is_text = any(corpus["kind"] == "text" for corpus in given.get("data", {}).values())
    if "start" in given and is_text:
        raise ConfigError("--from goes on with a translator, and --text is for a language model; leave one of them out")
    with status() as tell:
        tell("reading and cleaning the corpus")
        if "start" in tree:
            return complete_start(tree)
        return complete_text(tree, device=device) if is_text else complete(with_start(tree), device=device)


def corpora_of(pairs: tuple[Path | None, ...], texts: tuple[Path | None, ...], prepared: Path | None) -> dict[str, Any]:
    """The corpora of the options, as settings. Raises ConfigError where they are of several kinds."""
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
    """The running text of the options, as settings."""
    from dragoman.errors import ConfigError

    if train is None and valid is not None:
        raise ConfigError("--valid-text needs --text, to learn from")
    given = {"train": train, "valid": valid}
    corpora = {name: {"kind": "text", "path": str(path)} for name, path in given.items() if path is not None}
    return {"data": corpora} if corpora else {}


def pairs_of(
    source: Path | None, target: Path | None, valid_source: Path | None, valid_target: Path | None
) -> dict[str, Any]:
    """The parallel text of the options, as settings."""
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
    """The folder to write to, looked at before anything that takes long."""
    from dragoman.errors import ConfigError
    from dragoman.runs.folder import RunFolder

    if out is None:
        raise ConfigError("where should the run be written? Give a folder by --out, for example --out runs/en-de")
    folder = RunFolder(out)
    folder.require_free()
    return folder
