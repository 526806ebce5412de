"""`dragoman reproduce`: train a recipe and say whether it reaches what it promises."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from dragoman.runs.config import Experiment
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.reproduce import Verdict

DOES_NOT_HOLD = 1


def reproduce(
    recipe: Annotated[Path, typer.Argument(help="YAML file of settings, with the scores they should reach.")],
    *,
    data: Annotated[Path, typer.Option(help="Folder that the recipe's corpora are relative to.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the runs.", show_default="runs/reproduce-RECIPE")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="Train with this seed; may be repeated.", show_default="the recipe's")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as training.batch_tokens=1024. May be repeated.")
    ] = None,
    device: Device = None,
) -> None:
    """Train a recipe, once for each seed, and say whether its scores hold: the exit code is 0 where they do, else 1.

    Runs that are there already are gone on with, or taken as they are where they have ended.
    """
    from dragoman.runs.device import choose_device
    from dragoman.runs.reproduce import read_expectations, verdicts, write_verdicts

    expectations = read_expectations(recipe)
    place = out or Path("runs") / f"reproduce-{recipe.stem}"
    experiments = _experiments(recipe, data=data, seeds=seed, assignments=assignments or [])
    chosen = choose_device(device)
    try:
        runs = [_run(experiment, place / f"seed-{number}", device=chosen) for number, experiment in experiments.items()]
    finally:
        with suppress(OSError):  # it stays where there is a run in it
            place.rmdir()
    found = verdicts(expectations, runs)
    seconds = [float(run.read_scores()["seconds"]) for run in runs]
    write_verdicts(place / "reproduced.json", found, seeds=list(experiments), seconds=seconds)
    _show(found, seeds=list(experiments), seconds=seconds, changed=assignments or [])
    if not all(verdict.holds for verdict in found):
        raise typer.Exit(DOES_NOT_HOLD)


def _experiments(recipe: Path, *, data: Path, seeds: list[int] | None, assignments: list[str]) -> dict[int, Experiment]:
    """What is trained, by seed."""
    from dragoman.config import override
    from dragoman.runs.config import in_folder, read_tree, to_experiment
    from dragoman.runs.init_from import with_start

    tree = with_start(in_folder(read_tree(recipe, assignments), data))
    if not seeds:
        experiment = to_experiment(tree, where=str(recipe))
        return {experiment.training.seed: experiment}
    return {
        number: to_experiment(override(tree, [f"training.seed={number}"]), where=str(recipe))
        for number in dict.fromkeys(seeds)
    }


def _run(experiment: Experiment, path: Path, *, device: torch.device) -> RunFolder:
    """The finished run of an experiment. Raises RunError where the folder holds one of other settings."""
    from dragoman.cli.train import train_in
    from dragoman.errors import RunError
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.token_budget import as_asked

    folder = RunFolder(path)
    if folder.config.is_file():
        if not as_asked(folder.read_config(), experiment):
            raise RunError(f"{path}: holds a run with other settings; choose another place by --out")
    else:
        folder.begin()
        folder.write_config(experiment)
    if not folder.weights.exists():
        with folder.gone_unless_begun():
            train_in(folder, folder.read_config(), device=device)
    return folder


def _show(found: Sequence[Verdict], *, seeds: Sequence[int], seconds: Sequence[float], changed: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("set", "metric", "expected", "found", "holds", "signature", box=None, pad_edge=False)
    table.columns[-1].overflow = "fold"
    for verdict in found:
        one = verdict.expectation
        values = " ".join(f"{value:.2f}" for value in verdict.values)
        mean = f"{verdict.mean:.2f} (mean of {values})" if len(verdict.values) > 1 else values
        expected = f"{one.value:g} ± {one.tolerance:g}"
        table.add_row(one.set, one.metric, expected, mean, "yes" if verdict.holds else "no", verdict.signature)
    console = Console()
    console.print(table)
    minutes = ", ".join(f"{value / 60:.1f}" for value in seconds)
    beside = f", with {' '.join(changed)}" if changed else ""
    answer = "holds" if all(verdict.holds for verdict in found) else "does not hold"
    console.print(
        f"\nThe result {answer}: seeds {', '.join(map(str, seeds))}, {minutes} minutes{beside}.",
        markup=False,
        soft_wrap=True,
    )
