"""`dragoman info`: describe a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from dragoman.cli.options import RunArgument
from dragoman.cli.table_output import build_table
from dragoman.cli.verb_command import Outcome

if TYPE_CHECKING:
    from dragoman.profiling.memory_and_time_estimate import ModelCost


def info(run: RunArgument) -> Outcome:
    """Describe a run: model, data, scores.

    Prints the parameters by part, the operations per token, the memory and the scores.
    """
    import torch

    from dragoman.profiling.memory_and_time_estimate import model_cost
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.model_card import describe_model
    from dragoman.tasks.factory import build_task

    folder = RunFolder(run)
    experiment, tokenizer, exported = folder.read_config(), folder.read_tokenizer(), folder.read_export()
    task = build_task(experiment)
    cost = model_cost(task.build_model(folder, device=torch.device("cpu")).eval())
    weight_bytes = folder.weights.stat().st_size if exported else cost.weight_bytes
    facts = {
        "run": run.name,
        "task": experiment.task,
        "compute_type": exported.get("compute_type", "float32"),
        "trained": folder.weights.exists(),
        "model": experiment.model.model_dump(mode="json"),
        "vocabulary": {"source": len(tokenizer.source), "target": len(tokenizer.target), "shared": tokenizer.shared},
        "parameters": {**cost.parts, "total": cost.parameters},
        "flops_per_token": dict(cost.flops),
        "bytes": {"weights": weight_bytes, "cache_per_token": cost.cache_bytes},
        "result": folder.read_scores(),
    }

    def show() -> None:
        _print(facts, cost, heading=f"{task.description.noun}: {describe_model(experiment.model)}")
        _print_result(facts["result"], unit=task.description.loss_unit)

    return Outcome(lambda: facts, show)


def _print(facts: dict[str, Any], cost: ModelCost, *, heading: str) -> None:
    console = Console(highlight=False)
    state = "" if facts["trained"] else ", not trained to the end"
    sides = facts["vocabulary"]
    vocabulary = f"{sides['target']:,}" if sides["shared"] else f"{sides['source']:,} and {sides['target']:,}"
    console.print(f"[bold]{escape(facts['run'])}[/bold]{state}, {heading}; vocabulary {vocabulary}", soft_wrap=True)
    rows = [(f"  {name}", f"{count:,}" if count else "shared") for name, count in cost.parts.items()]
    rows += [
        ("parameters", f"{cost.parameters:,}"),
        ("weights", f"{facts['bytes']['weights'] / 2**20:.1f} MiB in {facts['compute_type']}"),
    ]
    if cost.cache_bytes:
        rows.append(("cache", f"{cost.cache_bytes / 1024:.1f} KiB per generated token and hypothesis"))
    for number, (name, flops) in enumerate(cost.flops.items()):
        unit = "source token" if name == "encode" else "generated token and hypothesis"
        rows.append(("" if number else "cost", f"{flops / 1e6:.2f} MFLOP per {unit}"))
    console.print(build_table(("name", "value"), rows, right=("value",), header=False))


def _print_result(result: dict[str, Any], *, unit: str) -> None:
    console = Console(highlight=False)
    if result:
        console.print(
            f"trained {result['steps']:,} steps on {result['tokens']:,} {unit} in {result['seconds'] / 60:.1f} min; "
            f"weights: {result['weights']}"
        )
    for name, scores in result.get("scores", {}).items():
        for score in scores:
            text = f"{name}: {score['metric']} {score['value']:.2f}  [dim]{score['signature']}[/dim]"
            console.print(text, soft_wrap=True)
