"""`dragoman plan`: what a training will take here, in memory, time and money, before it is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import (
    Begin,
    DataFolder,
    Device,
    Prepared,
    RunningText,
    Settings,
    SourceText,
    TargetText,
    ValidSource,
    ValidTarget,
    ValidText,
)

if TYPE_CHECKING:
    from dragoman.profiling.plan import Plan


def plan(
    config: Settings = None,
    *,
    source: SourceText = None,
    target: TargetText = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    text: RunningText = None,
    valid_text: ValidText = None,
    prepared: Prepared = None,
    begin: Begin = None,
    data: DataFolder = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as training.batch_tokens=auto. May be repeated.")
    ] = None,
    device: Device = None,
    devices: Annotated[int, typer.Option(min=1, help="How many such devices share every batch.")] = 1,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory of the device, as 16GiB; without it what is free.", show_default=False),
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0, help="Of an hour of one device, in any currency.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Say what a training will take: parameters, memory, the token budget that fits, operations, time and cost.

    It takes what `dragoman train` takes, looks at the start of that training for some seconds, and writes nothing.
    """
    from dragoman.cli.train import asked_for, corpora_of
    from dragoman.cli.training_display import status
    from dragoman.profiling.memory import size_of
    from dragoman.profiling.plan import to_tree
    from dragoman.runs.device import choose_device, describe
    from dragoman.runs.token_budget import planned

    available = None if memory is None else size_of(memory)
    chosen = choose_device(device)
    given = corpora_of((source, target, valid_source, valid_target), (text, valid_text), prepared)
    begun = {} if begin is None else {"start": str(begin)}
    experiment, _ = asked_for(config, given | begun, data, assignments or [], chosen)
    with status() as tell:
        found = planned(experiment, device=chosen, devices=devices, available=available, price=price, tell=tell)
    if json:
        from json import dumps

        print(dumps({"device": describe(chosen), **to_tree(found)}, indent=2))
    else:
        _print(found, device=describe(chosen))


def _print(found: Plan, *, device: str) -> None:
    from rich.console import Console

    from dragoman.cli.training_display import minutes
    from dragoman.profiling.memory import shown

    console = Console(highlight=False)
    many = f" × {found.devices}" if found.devices > 1 else ""
    workers = f", {found.workers} workers" if found.workers > 1 else ""
    console.print(f"{device}{many}{workers}; {found.sizes}; {found.parameters:,} parameters", soft_wrap=True)
    _print_table(
        console,
        "memory",
        {name.replace("_", " "): shown(value) for name, value in vars(found.memory).items() if value},
    )
    names = ("start", "updates", "validations", "checkpoints", "choice", "scores", "total")
    _print_table(console, "time", {name: minutes(getattr(found.time, name)) for name in names})
    console.print(
        f"token budget: {found.budget:,}; {found.fitting:,} fit into {shown(found.available)}"
        + ("" if found.fits else "[bold]: what is asked for does not[/bold]"),
        soft_wrap=True,
    )
    each, epoch = found.flops / max(1.0, found.tokens), found.updates_per_epoch
    in_one = f"{epoch:,.0f}" if epoch >= 10 else f"{epoch:.1f}"
    console.print(
        f"{found.updates:,} updates, {in_one} an epoch; {found.tokens / 1e6:,.1f} million predictions; "
        f"{found.flops / 1e15:,.2f} PFLOP, {each / 1e6:,.1f} MFLOP a prediction; "
        f"{100 * found.utilisation:.0f} % of what large products in float32 reach here",
        soft_wrap=True,
    )
    if found.devices > 1:
        console.print("note: each device is one like this; what they tell each other is not counted", soft_wrap=True)
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
