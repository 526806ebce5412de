"""`dragoman reproduce`: train a recipe and check its expected scores."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from dragoman.runs.folder import RunFolder
    from dragoman.runs.reproduce import ScoreCheck
    from dragoman.tasks.config import Experiment

DOES_NOT_HOLD = 1


def reproduce(
    recipe: Annotated[Path, typer.Argument(help="YAML recipe with its expected scores.")],
    *,
    data: Annotated[
        Path, typer.Option(help="Folder that corpus paths in the recipe are relative to.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option("--output-dir", "--out", help="Folder of the runs.", show_default="runs/reproduce-RECIPE"),
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="Training seed (repeatable).", show_default="the recipe's")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as training.batch_tokens=1024. (repeatable)")
    ] = None,
    device: Device = None,
) -> None:
    """Train a recipe and compare its scores with the expected ones.

    Trains once per seed. The exit code is 0 where all expected scores are reached, else 1. Interrupted runs continue,
    and finished runs are not trained again.
    """
    from dragoman.device import choose_device
    from dragoman.runs.reproduce import check_scores, read_expected_scores, write_score_checks

    expectations = read_expected_scores(recipe)
    place = out or Path("runs") / f"reproduce-{recipe.stem}"
    experiments = _experiments(recipe, data=data, seeds=seed, assignments=assignments or [])
    chosen = choose_device(device)
    try:
        runs = [_run(experiment, place / f"seed-{number}", device=chosen) for number, experiment in experiments.items()]
    finally:
        with suppress(OSError):  # it stays where there is a run in it
            place.rmdir()
    found = check_scores(expectations, runs)
    seconds = [float(run.read_scores()["seconds"]) for run in runs]
    write_score_checks(place / "reproduced.json", found, seeds=list(experiments), seconds=seconds)
    _show(found, seeds=list(experiments), seconds=seconds, changed=assignments or [])
    if not all(verdict.holds for verdict in found):
        raise typer.Exit(DOES_NOT_HOLD)


def _experiments(recipe: Path, *, data: Path, seeds: list[int] | None, assignments: list[str]) -> dict[int, Experiment]:
    """Return the configuration of each seed."""
    from dragoman.config import override
    from dragoman.runs.config import parse_experiment, read_settings, resolve_corpus_paths
    from dragoman.runs.finetune import apply_init_from

    tree = apply_init_from(resolve_corpus_paths(read_settings(recipe, assignments), data))
    if not seeds:
        experiment = parse_experiment(tree, where=str(recipe))
        return {experiment.training.seed: experiment}
    return {
        number: parse_experiment(override(tree, [f"training.seed={number}"]), where=str(recipe))
        for number in dict.fromkeys(seeds)
    }


def _run(experiment: Experiment, path: Path, *, device: torch.device) -> RunFolder:
    """Train and return the run. Raises RunError where the folder holds a run with another configuration."""
    from dragoman.cli.training_display import TerminalReporter
    from dragoman.errors import RunError
    from dragoman.runs.batch_tokens import is_same_experiment
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.train import train_in_folder

    folder = RunFolder(path)
    if folder.config.is_file():
        if not is_same_experiment(folder.read_config(), experiment):
            raise RunError(f"{path}: holds a run with other settings; choose another place by --out")
    else:
        folder.create()
        folder.write_config(experiment)
    if not folder.weights.exists():
        with folder.remove_on_error():
            train_in_folder(folder, folder.read_config(), device=device, reporter=TerminalReporter())
    return folder


def _show(found: Sequence[ScoreCheck], *, seeds: Sequence[int], seconds: Sequence[float], changed: list[str]) -> None:
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
