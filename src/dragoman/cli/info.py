"""`dragoman info`: describe a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from dragoman.profiling.estimate import ModelCost
    from dragoman.runs.folder import RunFolder


def info(
    run: Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Describe a run: model, data, scores.

    Prints the parameters by part, the operations per token, the memory and the scores.
    """
    import torch

    from dragoman.profiling.estimate import model_cost
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.model_card import describe_model
    from dragoman.tasks.factory import build_task

    folder = RunFolder(run)
    experiment = folder.read_config()
    tokenizer = folder.read_tokenizer()
    task = build_task(experiment)
    cost = model_cost(task.build_model(folder, device=torch.device("cpu")).eval())
    facts = {
        "run": run.name,
        "task": experiment.task,
        "compute": folder.read_export().get("compute", "float32"),
        "trained": folder.weights.exists(),
        "model": experiment.model.model_dump(mode="json"),
        "vocabulary": {"source": len(tokenizer.source), "target": len(tokenizer.target), "shared": tokenizer.shared},
        "parameters": {**cost.parts, "total": cost.parameters},
        "flops_per_token": dict(cost.flops),
        "bytes": {"weights": _size(folder, cost), "cache_per_token": cost.cache_bytes},
        "result": folder.read_scores(),
    }
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        heading = f"{task.description.noun}: {describe_model(experiment.model)}"
        _print(facts, cost, heading=heading, counted=task.description.loss_unit)


def _size(folder: RunFolder, cost: ModelCost) -> int:
    """Number format of the stored weights."""
    return folder.weights.stat().st_size if folder.read_export() else cost.weight_bytes


def _print(facts: dict[str, Any], cost: ModelCost, *, heading: str, counted: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    state = "" if facts["trained"] else ", not trained to the end"
    sides = facts["vocabulary"]
    vocabulary = f"{sides['target']:,}" if sides["shared"] else f"{sides['source']:,} and {sides['target']:,}"
    console.print(f"[bold]{escape(facts['run'])}[/bold]{state}, {heading}; vocabulary {vocabulary}", soft_wrap=True)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, count in cost.parts.items():
        table.add_row(f"  {name}", f"{count:,}" if count else "shared")
    table.add_row("parameters", f"{cost.parameters:,}")
    table.add_row("weights", f"{facts['bytes']['weights'] / 2**20:.1f} MiB in {facts['compute']}")
    if cost.cache_bytes:
        table.add_row("cache", f"{cost.cache_bytes / 1024:.1f} KiB a generated token and hypothesis")
    for number, (name, flops) in enumerate(cost.flops.items()):
        what = "token that is read" if name == "encode" else "generated token and hypothesis"
        table.add_row("" if number else "cost", f"{flops / 1e6:.2f} MFLOP a {what}")
    console.print(table)
    _print_result(console, facts["result"], counted=counted)


def _print_result(console: Console, result: dict[str, Any], *, counted: str) -> None:
    if result:
        console.print(
            f"trained {result['updates']:,} updates on {result['target_tokens']:,} {counted} in "
            f"{result['seconds'] / 60:.1f} min; weights: {result['weights']}"
        )
    for name, scores in result.get("scores", {}).items():
        for score in scores:
            console.print(f"{name}: {score['metric']} {score['value']:.2f}  [dim]{score['signature']}[/dim]")
