"""`dragoman compare`: compare systems or runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.evaluate import DEFAULT_METRICS, Json, Lowercase, MetricNames, Tokenize, chosen_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from dragoman.evaluation import PairedResult

SEED, RESAMPLES, TRIALS = 12345, 1000, 10_000
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        "-r",
        help="File of references, one per line (repeatable for several references). Required for translations.",
    ),
]


def compare(
    systems: Annotated[
        list[str], typer.Argument(help="Files of translations, the first one the baseline; or run folders.")
    ],
    *,
    reference: References = None,
    metric: MetricNames = DEFAULT_METRICS,
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of both tests.")] = SEED,
    resamples: Annotated[int, typer.Option(min=40, help="Resamples of the paired bootstrap.")] = RESAMPLES,
    trials: Annotated[int, typer.Option(min=1, help="Trials of the approximate randomization test.")] = TRIALS,
    json: Json = False,
) -> None:
    """Compare systems with paired significance tests, or runs in one table.

    Outputs are compared by paired bootstrap resampling (Koehn, 2004) and approximate randomization (Riezler and
    Maxwell, 2005). Run folders without --reference are compared by size, cost, speed and scores.
    """
    from dragoman import evaluation
    from dragoman.cli import streams

    _refuse_twice(systems)
    if reference is None:
        from dragoman.cli.run_table import compare_runs

        usual = (metric, tokenize, lowercase, seed, resamples, trials)
        _refuse_without_references(usual != (DEFAULT_METRICS, None, False, SEED, RESAMPLES, TRIALS))
        compare_runs(_folders(systems), as_json=json)
        return
    references = [streams.read_all(name) for name in reference]
    outputs = {name: streams.read_all(name) for name in systems}
    for name, sentences in outputs.items():
        evaluation.check_aligned(sentences, references, names=[name, *reference])
    compared = evaluation.compare_systems(
        outputs,
        references,
        chosen_metrics(metric, tokenize=tokenize, lowercase=lowercase),
        seed=seed,
        resamples=resamples,
        trials=trials,
    )
    if json:
        _print_json(compared)
    else:
        _print_tables(compared)


def _refuse_without_references(asked: bool) -> None:
    from dragoman.errors import ConfigError

    if asked:
        raise ConfigError(
            "--metric, --tokenize, --lowercase, --seed, --resamples and --trials are for outputs with --reference, and "
            "runs are shown with the scores that they have; leave them out"
        )


def _refuse_twice(systems: Sequence[str]) -> None:
    from dragoman.errors import ConfigError

    twice = sorted({name for name in systems if systems.count(name) > 1})
    if twice:
        raise ConfigError(f"{twice[0]}: is given twice; name each of them once")


def _folders(systems: Sequence[str]) -> list[Path]:
    """Return the run folders to compare. Raises ConfigError on other files without a reference."""
    from dragoman.errors import ConfigError

    others = [name for name in systems if not Path(name).is_dir()]
    if others:
        raise ConfigError(
            f"{others[0]}: is no folder of a run; give runs alone, or files of outputs and --reference FILE"
        )
    return [Path(name) for name in systems]


def _print_json(compared: Sequence[PairedResult]) -> None:
    import json

    from dragoman.evaluation import comparison_rows

    print(json.dumps(comparison_rows(compared), ensure_ascii=False, indent=2))


def _print_tables(compared: Sequence[PairedResult]) -> None:
    from rich.console import Console

    console = Console()
    for metric in dict.fromkeys(paired.metric for paired in compared):
        rows = [paired for paired in compared if paired.metric == metric]
        console.print(_table(metric, rows))
        console.print(rows[0].signature, style="dim", highlight=False, soft_wrap=True)
        console.print()
    console.print(
        "Score, mean and 95 % confidence interval of the bootstrap; p of the paired bootstrap (Koehn, 2004) and of "
        "approximate randomisation (Riezler and Maxwell, 2005) against the baseline, * below 0.05; better or worse "
        "when both are.",
        style="dim",
        highlight=False,
    )


def _table(metric: str, rows: Sequence[PairedResult]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("system", overflow="fold")
    for heading in (metric, "95 % interval", "difference", "p bootstrap", "p random."):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for row in rows:
        table.add_row(
            Text(row.system),
            f"{row.score:.2f}",
            f"{row.mean:.2f} ± {row.confidence:.2f}",
            "" if row.difference is None else f"{row.difference:+.2f}",
            _p(row.p_bootstrap),
            _p(row.p_randomization),
            row.verdict(),
        )
    return table


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" + ("*" if value < 0.05 else "")
