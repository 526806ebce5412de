"""`dragoman info`: what a run is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dragoman.experiment.inventory import Inventory


def info(
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the parameters by part, the cost of a token, the memory and the scores of a run."""
    import torch

    from dragoman.experiment.build import build_model
    from dragoman.experiment.inventory import take_inventory
    from dragoman.experiment.run import RunFolder

    folder = RunFolder(run)
    experiment = folder.read_config()
    tokenizer = folder.read_tokenizer()
    inventory = take_inventory(build_model(experiment, tokenizer, device=torch.device("cpu")), experiment)
    facts = {
        "run": run.name,
        "trained": folder.weights.exists(),
        "preset_sizes": experiment.model.model_dump(mode="json"),
        "vocabulary": {"source": len(tokenizer.source), "target": len(tokenizer.target), "shared": tokenizer.shared},
        "parameters": {**inventory.parts, "total": inventory.parameters},
        "flops_per_token": {"encode": inventory.encode_flops, "decode": inventory.decode_flops},
        "bytes": {"weights": inventory.weight_bytes, "cache_per_token": inventory.cache_bytes},
        "result": folder.read_scores(),
    }
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        _print(facts, inventory)


def _print(facts: dict[str, Any], inventory: Inventory) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    model = facts["preset_sizes"]
    state = "" if facts["trained"] else ", not trained to the end"
    console.print(
        f"[bold]{facts['run']}[/bold]{state}: {model['encoder_layers']}+{model['decoder_layers']} layers, "
        f"{model['size']}/{model['feed_forward']}, {model['heads']} heads, vocabulary "
        f"{facts['vocabulary']['target']:,}{' for both sides' if facts['vocabulary']['shared'] else ''}"
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, count in inventory.parts.items():
        table.add_row(f"  {name}", f"{count:,}" if count else "shared")
    table.add_row("parameters", f"{inventory.parameters:,}")
    table.add_row("weights", f"{inventory.weight_bytes / 2**20:.1f} MiB in float32")
    table.add_row("cache", f"{inventory.cache_bytes / 1024:.1f} KiB a generated token and hypothesis")
    table.add_row("cost", f"{inventory.encode_flops / 1e6:.2f} MFLOP a source token")
    table.add_row("", f"{inventory.decode_flops / 1e6:.2f} MFLOP a generated token and hypothesis")
    console.print(table)
    result = facts["result"]
    if result:
        console.print(
            f"trained {result['updates']:,} updates on {result['target_tokens']:,} target tokens in "
            f"{result['seconds'] / 60:.1f} min; weights: {result['weights']}"
        )
    for name, scores in result.get("scores", {}).items():
        for score in scores:
            console.print(f"{name}: {score['metric']} {score['value']:.2f}  [dim]{score['signature']}[/dim]")
