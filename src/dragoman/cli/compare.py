"""`dragoman compare`: compare systems or runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dragoman.cli import messages, text_io
from dragoman.cli.evaluate import DEFAULT_METRICS, Lowercase, MetricNames, Tokenize, metric_configs
from dragoman.cli.table_output import PlainConsole, build_table
from dragoman.cli.verb_command import Outcome
from dragoman.errors import ConfigError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from dragoman.evaluation import PairedResult
    from dragoman.runs.compare import RunScore, RunSummary

SEED, RESAMPLES, TRIALS = 12345, 1000, 10_000
References = Annotated[
    list[str] | None, typer.Option("--reference", "-r", help="File of references (repeatable). Translations need it.")
]


def compare(
    systems: Annotated[list[str], typer.Argument(help="Files of translations, the baseline first; or run folders.")],
    *,
    reference: References = None,
    metric: MetricNames = DEFAULT_METRICS,
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of both tests.")] = SEED,
    resamples: Annotated[int, typer.Option(min=40, help="Resamples of the paired bootstrap.")] = RESAMPLES,
    trials: Annotated[int, typer.Option(min=1, help="Trials of the approximate randomization test.")] = TRIALS,
) -> Outcome:
    """Compare systems with paired significance tests, or runs in one table.

    Translations are compared by paired bootstrap resampling (Koehn, 2004) and approximate randomization (Riezler and
    Maxwell, 2005). Run folders without --reference are compared by size, cost, speed and scores, with the
    settings in which they differ.
    """
    from dragoman.evaluation import check_aligned, compare_systems

    _check_systems(systems)
    if reference is None:
        tests = (metric, tokenize, lowercase, seed, resamples, trials)
        if tests != (DEFAULT_METRICS, None, False, SEED, RESAMPLES, TRIALS):
            raise ConfigError(
                "--metric, --tokenize, --lowercase, --seed, --resamples and --trials test files of translations with "
                "--reference FILE; runs are shown with the scores that they have. Leave them out, or give such files."
            )
        return _compare_runs(systems)
    if folders := [name for name in systems if Path(name).is_dir()]:
        run = quote(folders[0])
        raise ConfigError(
            f"{folders[0]}: is a folder, and --reference tests files of translations. Leave --reference out, or write "
            f"such files with: dragoman translate {run} --input SOURCE --output FILE"
        )
    references = [text_io.read_all(name) for name in reference]
    outputs = {name: text_io.read_all(name, expected=len(references[0])) for name in systems}
    for name, sentences in outputs.items():
        check_aligned(sentences, references, names=[name, *reference])
    metrics = metric_configs(metric, tokenize=tokenize, lowercase=lowercase)
    compared = compare_systems(outputs, references, metrics, seed=seed, resamples=resamples, trials=trials)
    return Outcome(lambda: [paired.row() for paired in compared], lambda: _print_tests(compared))


def _check_systems(systems: Sequence[str]) -> None:
    """Raise ConfigError if a system is given twice, by whatever path or link."""
    first: dict[Path, str] = {}
    for name in systems:
        if (other := first.get(path := Path(name).resolve())) is not None:
            same = "is given twice" if other == name else f"is {other} by another path"
            raise ConfigError(f"{name}: {same}, and nothing differs from itself. Name each system once.")
        first[path] = name


def _print_tests(compared: Sequence[PairedResult]) -> None:
    console = PlainConsole()
    for metric in dict.fromkeys(paired.metric for paired in compared):
        rows = [paired for paired in compared if paired.metric == metric]
        numbers = (metric, "95 % interval", "difference", "p bootstrap", "p random.")
        console.print(build_table(("system", *numbers, "verdict"), map(_test_row, rows), right=numbers))
        console.print(rows[0].signature, style="dim", soft_wrap=True)
        console.print()
    console.print(
        "Score, mean and 95 % confidence interval of the bootstrap; p-values of the paired bootstrap (Koehn, 2004) and "
        "of approximate randomization (Riezler and Maxwell, 2005) against the baseline, * below 0.05; better or worse "
        "if both are.",
        style="dim",
    )


def _test_row(row: PairedResult) -> tuple[str | Text, ...]:
    p_values = ("" if p is None else f"{p:.4f}{'*' * (p < 0.05)}" for p in (row.p_bootstrap, row.p_randomization))
    return (
        Text(row.system),
        f"{row.score:z.2f}",
        f"{row.mean:z.2f} ± {row.confidence:.2f}",
        "" if row.difference is None else f"{row.difference:+z.2f}",
        *p_values,
        row.verdict(),
    )


def _compare_runs(names: Sequence[str]) -> Outcome:
    """Return one table, or one JSON list. Raises ConfigError on a file, which needs a reference."""
    from dragoman.runs.compare import summarize_run
    from dragoman.runs.folder import RunFolder

    if files := [name for name in names if not Path(name).is_dir()]:
        raise ConfigError(
            f"{files[0]}: is not a run folder. Give run folders only, or files of translations and --reference FILE."
        )
    runs = [summarize_run(Path(name)) for name in names]
    stored = {run.run: RunFolder(Path(run.run)).read_export().get("compute_type", "float32") for run in runs}
    scored = {run.run for run in runs if run.scores}
    for name, compute_type in stored.items():
        if compute_type != "float32" and name in scored:
            messages.say(
                f"note: {name}: the scores are those of the float32 weights, not of the {compute_type} weights"
            )
    if len(tasks := dict.fromkeys(run.task.replace("_", " ") for run in runs)) > 1:
        messages.say(f"note: scores of different tasks are not comparable: {', '.join(tasks)}")
    return Outcome(lambda: [asdict(run) for run in runs], lambda: _print_runs(runs))


def _print_runs(runs: Sequence[RunSummary]) -> None:
    from dragoman.runs.compare import comparable_scores, differing_settings

    signatures = list(dict.fromkeys(score.signature for score in comparable_scores(runs)))
    console = PlainConsole()
    console.print(_run_table(runs, signatures))
    for number, signature in enumerate(signatures, start=1):
        console.print(f"({number}) {signature}", style="dim", soft_wrap=True)
    if different := differing_settings(runs):
        rows = [(Text(key), *map(_setting, values)) for key, values in different.items()]
        console.print()
        console.print(build_table(("", *_column_names(runs)), rows, title="settings that differ", right=()))


def _run_table(runs: Sequence[RunSummary], signatures: Sequence[str]) -> Table:
    """Build a table with one column per run; the best of several comparable scores is bold.

    The number after a metric is that of its signature.
    """
    from dragoman.runs.compare import comparable_scores, find_score

    columns = _column_names(runs)
    rows: list[tuple[str | Text, ...]] = [(name, *map(cell, runs)) for name, cell in _FACTS.items()]
    labels: set[str] = set()
    for score in comparable_scores(runs):
        label = f"{score.set}: {score.metric} ({signatures.index(score.signature) + 1})"
        rows.append(
            (
                f"{label} of other texts" if label in labels else label,
                *_mark_best([find_score(run, score.key) for run in runs]),
            )
        )
        labels.add(label)
    return build_table(("", *columns), rows, right=columns)


def _column_names(runs: Sequence[RunSummary]) -> list[str]:
    names = [Path(run.run).name for run in runs]
    return names if len(set(names)) == len(names) else [run.run for run in runs]


def _setting(value: Any) -> Text:
    from dragoman.runs.compare import MISSING

    return Text("–" if value is MISSING else json.dumps(value, ensure_ascii=False).strip('"'))


def _mark_best(scores: Sequence[RunScore | None]) -> list[Text]:
    present = [score for score in scores if score is not None]
    choose = max if present[0].higher_is_better else min
    best = choose(score.value for score in present) if len(present) > 1 else None
    cells = ["" if score is None else f"{score.value:z.2f}" for score in scores]
    return [
        Text(cell, "bold" if score is not None and score.value == best else "")
        for score, cell in zip(scores, cells, strict=True)
    ]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


_FACTS: dict[str, Callable[[RunSummary], str]] = {
    "task": lambda run: run.task.replace("_", " "),
    "model": lambda run: run.model,
    "parameters": lambda run: f"{run.parameters:,}",
    "MFLOP per token": lambda run: f"{1000 * run.gflops_per_token:,.3g}",
    "training minutes": lambda run: _number(run.minutes, ".1f"),
    "steps": lambda run: _number(run.steps, ","),
    "trained on": lambda run: f"{_number(run.tokens, ',')} {run.unit}",
    "per second": lambda run: f"{_number(run.tokens_per_second, ',.0f')} {run.unit}",
    "last train loss": lambda run: _number(run.train_loss, ".3f"),
    "last valid loss": lambda run: _number(run.valid_loss, ".3f"),
    "weights": lambda run: run.weights or "not trained to the end",
}
