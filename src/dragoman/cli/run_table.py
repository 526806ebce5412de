"""Table of runs: one column per run, one row per property."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from dragoman.runs.compare import RunScore, RunSummary


def compare_runs(folders: Sequence[Path], *, as_json: bool) -> None:
    """Print one table, or one JSON list."""
    from rich.console import Console

    from dragoman.runs.compare import summarize_run

    runs = [summarize_run(folder) for folder in folders]
    if as_json:
        print(json.dumps([run.to_json() for run in runs], ensure_ascii=False, indent=2))
    else:
        console = Console(highlight=False)
        console.print(run_table(runs))
        for number, signature in enumerate(_signatures(runs), start=1):
            console.print(f"({number}) {signature}", style="dim", soft_wrap=True, markup=False)


def run_table(runs: Sequence[RunSummary]) -> Table:
    """A column a run; the best of the scores that may be compared, where there are several, is in bold.

    The number behind a score is that of its signature.
    """
    from rich.table import Table
    from rich.text import Text

    from dragoman.runs.compare import comparable_scores, find_score

    signatures = _signatures(runs)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", style="dim", no_wrap=True)
    for name in _short([run.run for run in runs]):
        table.add_column(Text(name), justify="right", overflow="fold")
    for name, cell in _FACTS.items():
        table.add_row(name, *[cell(run) for run in runs])
    labels: set[str] = set()
    for key in comparable_scores(runs):
        found = [find_score(run, key) for run in runs]
        label = f"{key.on}: {key.metric} ({signatures.index(key.signature) + 1})"
        table.add_row(f"{label} of other texts" if label in labels else label, *_in_bold(found))
        labels.add(label)
    return table


def _signatures(runs: Sequence[RunSummary]) -> list[str]:
    """Return the distinct signatures of all scores."""
    from dragoman.runs.compare import comparable_scores

    return list(dict.fromkeys(key.signature for key in comparable_scores(runs)))


def _short(runs: Sequence[str]) -> Sequence[str]:
    """Return the last path components where they are unique, else the whole paths."""
    names = [Path(run).name for run in runs]
    return names if len(set(names)) == len(names) else runs


def _in_bold(scores: Sequence[RunScore | None]) -> list[str]:
    there = [score for score in scores if score is not None]
    best = (max if there[0].higher_is_better else min)(score.value for score in there) if len(there) > 1 else None
    cells = ["" if score is None else f"{score.value:.2f}" for score in scores]
    return [
        f"[bold]{cell}[/bold]" if score is not None and score.value == best else cell
        for score, cell in zip(scores, cells, strict=True)
    ]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


_FACTS: dict[str, Callable[[RunSummary], str]] = {
    "task": lambda run: run.task.replace("_", " "),
    "model": lambda run: run.model,
    "parameters": lambda run: f"{run.parameters:,}",
    "MFLOP a token": lambda run: f"{1000 * run.gflops_per_token:,.3g}",
    "training minutes": lambda run: _number(run.minutes, ".1f"),
    "updates": lambda run: _number(run.updates, ","),
    "trained on": lambda run: f"{_number(run.tokens, ',')} {run.unit}",
    "a second": lambda run: f"{_number(run.tokens_per_second, ',.0f')} {run.unit}",
    "weights": lambda run: run.weights or "not trained to the end",
}
