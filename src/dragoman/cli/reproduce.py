"""`dragoman reproduce`: train a recipe and check its expected scores."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Assignments, DeviceOption
from dragoman.cli.table_output import PlainConsole, build_table, print_whole
from dragoman.cli.training_display import TerminalReporter
from dragoman.cli.verb_command import Outcome
from dragoman.config import override
from dragoman.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from dragoman.runs.folder import RunFolder
    from dragoman.runs.reproduce import ScoreCheck
    from dragoman.tasks.config import Experiment


def reproduce(
    recipe: Annotated[Path, typer.Argument(help="YAML recipe with its expected scores.")],
    *,
    data: Annotated[Path, typer.Option(help="Folder that corpus paths in the recipe are relative to.")],
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", "--out", help="Folder of the runs.", show_default="runs/reproduce-RECIPE"),
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed (repeatable).", show_default="the recipe's")] = None,
    assignments: Assignments = None,
    device: DeviceOption = None,
) -> Outcome:
    """Train a recipe and compare its scores with the expected ones.

    Trains once per seed. The exit code is 0 where all expected scores are reached, else 1. Interrupted runs continue,
    and finished runs are not trained again.
    """
    from dragoman.device import choose_device
    from dragoman.runs.reproduce import check_scores, read_expected_scores, write_score_checks

    expected = read_expected_scores(recipe)
    folder = output_dir or Path("runs") / f"reproduce-{recipe.stem}"
    experiments = _experiments(recipe, data=data, seeds=seed, assignments=assignments or [])
    chosen = choose_device(device)
    try:
        runs = [_train(one, folder / f"seed-{number}", device=chosen) for number, one in experiments.items()]
    finally:
        with suppress(OSError):  # a folder that contains a run is not removed
            folder.rmdir()
    checks = check_scores(expected, runs)
    seconds = [float(run.read_scores()["seconds"]) for run in runs]
    write_score_checks(folder / "reproduced.json", checks, seeds=list(experiments), seconds=seconds)
    is_reproduced = all(check.passed for check in checks)
    minutes = ", ".join(f"{value / 60:.1f}" for value in seconds)
    changes = f", with {' '.join(assignments)}" if assignments else ""
    text = (
        f"\nThe result {'holds' if is_reproduced else 'does not hold'}: seeds {', '.join(map(str, experiments))}, "
        f"{minutes} minutes{changes}."
    )

    def show() -> None:
        _print_checks(checks)
        PlainConsole().print(text, soft_wrap=True)

    rows = [asdict(check) | {"passed": check.passed, "expected": check.expected.model_dump()} for check in checks]
    facts = {"reproduced": is_reproduced, "seeds": list(experiments), "seconds": seconds, "checks": rows}
    return Outcome(lambda: facts, show, status=int(not is_reproduced))


def _experiments(recipe: Path, *, data: Path, seeds: list[int] | None, assignments: list[str]) -> dict[int, Experiment]:
    """Return the configuration of each seed."""
    from dragoman.config_errors import name_origins
    from dragoman.runs.config import merge_settings, parse_experiment, read_settings, resolve_corpus_paths
    from dragoman.runs.finetune import apply_init_from

    settings, over = read_settings(recipe, ()), override({}, assignments)
    with name_origins({f"{recipe}: ": settings, "--set ": over}):
        tree = apply_init_from(resolve_corpus_paths(merge_settings(settings, over), data))
        configs = [override(tree, [f"training.seed={seed}"]) for seed in dict.fromkeys(seeds or ())] or [tree]
        experiments = [parse_experiment(one) for one in configs]
    return {experiment.training.seed: experiment for experiment in experiments}


def _train(experiment: Experiment, path: Path, *, device: torch.device) -> RunFolder:
    """Train and return the run. Raises RunError if the folder is a run with another configuration."""
    from dragoman.runs.auto_config import is_same_experiment
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.train_in_folder import train_in_folder

    folder = RunFolder(path)
    if folder.config.is_file():
        if not is_same_experiment(folder.read_config(), experiment):
            raise RunError(f"{path}: is a run with another configuration. Choose another folder with --output-dir.")
    else:
        folder.create()
        folder.write_config(experiment)
    if not folder.weights.exists():
        with folder.remove_on_error():
            train_in_folder(folder, folder.read_config(), device=device, reporter=TerminalReporter())
    return folder


def _print_checks(checks: Sequence[ScoreCheck]) -> None:
    rows = []
    for check in checks:
        one = check.expected
        values = " ".join(f"{value:z.2f}" for value in check.values)
        mean = f"{check.mean:z.2f} (mean of {values})" if len(check.values) > 1 else values
        expected = f"{one.value:g} ± {one.tolerance:g}"
        rows.append((one.set, one.metric, expected, mean, "yes" if check.passed else "no", check.signature))
    print_whole(PlainConsole(), build_table(("set", "metric", "expected", "found", "holds", "signature"), rows))
