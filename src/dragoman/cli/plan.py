"""`dragoman plan`: estimate memory, time and cost of a training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import Assignments, ConfigArgument, DataDir, DeviceOption, InitFrom, JsonFlag, corpus_options

if TYPE_CHECKING:
    from dragoman.profiling.plan import Plan


@corpus_options(into="corpora")
def plan(
    config: ConfigArgument = None,
    *,
    corpora: dict[str, Path],
    init_from: InitFrom = None,
    data_dir: DataDir = None,
    assignments: Assignments = None,
    device: DeviceOption = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of such devices (data parallel).")] = 1,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory of the device, such as 16GiB. Default: the free memory.", show_default=False),
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0, help="Price of one device hour, in any currency.", show_default=False)
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Estimate the memory, time and cost of a training.

    Takes the options of `dragoman train`, profiles the first steps of that training for some seconds, and writes
    nothing.
    """
    from dragoman.cli.train import settings_of
    from dragoman.cli.training_display import status
    from dragoman.device import choose_device, describe_device
    from dragoman.profiling.memory import parse_bytes
    from dragoman.runs.batch_tokens import plan_training
    from dragoman.runs.config import corpus_settings, read_settings
    from dragoman.runs.train import resolve_experiment

    available = None if memory is None else parse_bytes(memory)
    chosen = choose_device(device)
    settings = settings_of(read_settings(config, assignments or []), corpus_settings(**corpora), init_from)
    with status() as report:
        experiment, _ = resolve_experiment(
            settings,
            complete=config is not None,
            device=chosen,
            data_dir=data_dir,
            where=str(config or ""),
            report=report,
        )
    with status() as tell:
        found = plan_training(experiment, device=chosen, devices=devices, available=available, price=price, report=tell)
    if json_:
        print(json.dumps({"device": describe_device(chosen), **found.to_dict()}, indent=2))
    else:
        _print(found, device=describe_device(chosen))


def _print(found: Plan, *, device: str) -> None:
    from rich.console import Console

    from dragoman.cli.training_display import format_seconds
    from dragoman.profiling.memory import format_bytes

    console = Console(highlight=False)
    many = f" × {found.devices}" if found.devices > 1 else ""
    workers = f", {found.workers} workers" if found.workers > 1 else ""
    console.print(f"{device}{many}{workers}; {found.data_summary}; {found.parameters:,} parameters", soft_wrap=True)
    _print_table(
        console,
        "memory",
        {name.replace("_", " "): format_bytes(value) for name, value in vars(found.memory).items() if value},
    )
    names = ("start", "steps", "validations", "checkpoints", "selection", "scores", "total")
    _print_table(console, "time", {name: format_seconds(getattr(found.time, name)) for name in names})
    console.print(
        f"batch tokens: {found.batch_tokens:,}; {found.max_batch_tokens:,} fit into {format_bytes(found.available)}"
        + ("" if found.fits else "[bold]; the configured batch does not fit[/bold]"),
        soft_wrap=True,
    )
    each, epoch = found.flops / max(1.0, found.tokens), found.steps_per_epoch
    in_one = f"{epoch:,.0f}" if epoch >= 10 else f"{epoch:.1f}"
    console.print(
        f"{found.steps:,} steps, {in_one} per epoch; {found.tokens / 1e6:,.1f} million predictions; "
        f"{found.flops / 1e15:,.2f} PFLOP, {each / 1e6:,.1f} MFLOP per prediction; "
        f"{100 * found.utilization:.0f} % of the speed of large float32 matrix products",
        soft_wrap=True,
    )
    if found.devices > 1:
        console.print("note: the devices are like this one; communication between them is not counted", soft_wrap=True)
    if found.cost is not None:
        console.print(f"cost: {found.cost:,.2f}")


def _print_table(console: Any, title: str, rows: dict[str, str]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value, style="bold" if name == "total" else None)
    console.print(table)
