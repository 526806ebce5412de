"""`dragoman plan`: estimate memory, time and cost of a training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dragoman.cli import options
from dragoman.cli.table_output import PlainConsole, build_table
from dragoman.cli.training_display import format_seconds, status
from dragoman.cli.verb_command import Outcome
from dragoman.config_trees import merge
from dragoman.number_words import counted, with_prefix

if TYPE_CHECKING:
    from dragoman.profiling.training_plan import Plan


@options.shared_options(options.CORPORA, into="corpora")
@options.training_options
def plan(
    config: options.ConfigArgument = None,
    *,
    corpora: dict[str, Path],
    init_from: options.InitFromOption = None,
    data_dir: options.DataDir = None,
    training: dict[str, Any],
    assignments: options.Assignments = None,
    device: options.DeviceOption = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of such devices (data parallel).")] = 1,
    memory: Annotated[str | None, typer.Option(help="Device memory, such as 16GiB. Default: free memory.")] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Price of one device hour, in any currency.")] = None,
) -> Outcome:
    """Estimate the memory, time and cost of a training.

    Takes the options of `dragoman train`, profiles the first steps of that training for some seconds, and writes
    nothing.
    """
    from dragoman.config_errors import name_origins
    from dragoman.device import choose_device, describe_device
    from dragoman.profiling.measured_memory import parse_bytes
    from dragoman.runs.auto_config import plan_training
    from dragoman.runs.config import apply_overrides, corpus_settings, read_settings, resolve_config_paths, split_corpus
    from dragoman.runs.finetune import resolve_experiment

    available = None if memory is None else parse_bytes(memory)
    chosen = choose_device(device)
    config, files = split_corpus(config, corpora)
    given = corpus_settings(files) | ({} if init_from is None else {"init_from": str(init_from)})
    options_and_keys = options.merge_assignments(training, assignments or [])
    settings = read_settings(config, ())
    where, is_complete = f"{config}: " if config else "", config is not None
    with name_origins({where: settings, **options.origins(training, assignments or [])}), status() as report:
        settings = merge(resolve_config_paths(settings, data_dir, complete=is_complete), given)
        settings = apply_overrides(settings, options_and_keys)
        experiment, _ = resolve_experiment(settings, complete=is_complete, device=chosen, report=report)
    with status() as report:
        found = plan_training(
            experiment, device=chosen, devices=devices, available=available, price=price, report=report
        )
    name = describe_device(chosen)
    return Outcome(lambda: {"device": name, **found.to_dict()}, lambda: _print(found, device=name))


def _print(found: Plan, *, device: str) -> None:
    from dragoman.profiling.measured_memory import format_bytes

    console = PlainConsole(soft_wrap=True)
    many = f" × {found.devices}" if found.devices > 1 else ""
    workers = f", {counted(found.workers, 'workers')}" if found.workers > 1 else ""
    console.print(f"{device}{many}{workers}; {found.data_summary}; {found.parameters:,} parameters")
    for note in found.data_notes:
        console.print(f"note: {note}")
    parts = ("start", "steps", "validations", "checkpoints", "selection", "scores", "total")
    tables = {
        "memory": {name.replace("_", " "): format_bytes(size) for name, size in vars(found.memory).items() if size},
        "time": {name: format_seconds(getattr(found.time, name)) for name in parts},
    }
    for title, table in tables.items():
        rows = [
            (Text(name, "bold" if name == "total" else ""), Text(value, "bold" if name == "total" else ""))
            for name, value in table.items()
        ]
        console.print(build_table(("part", "value"), rows, title=title, right=("value",), header=False))
    fit = f"batch tokens: {found.batch_tokens:,}; {found.max_batch_tokens:,} fit into {format_bytes(found.available)}"
    console.print(Text.assemble(fit, ("" if found.fits else "; the configured batch does not fit", "bold")))
    tokens = round(found.tokens)
    predictions = f"{tokens / 1e6:,.1f} million predictions" if tokens >= 1e6 else counted(tokens, "predictions")
    steps_per_epoch = f"{found.steps_per_epoch:,.0f}" if found.steps_per_epoch >= 10 else f"{found.steps_per_epoch:.1f}"
    console.print(
        f"{counted(found.steps, 'steps')}, {steps_per_epoch} per epoch; {predictions}; "
        f"{with_prefix(found.flops, 'FLOP')}, {with_prefix(found.flops / max(1.0, found.tokens), 'FLOP')} per "
        f"prediction{_describe_utilization(found.utilization)}"
    )
    if found.devices > 1:
        console.print("note: the devices are like this one; communication between them is not counted")
    if found.cost is not None:
        console.print(f"cost: {found.cost:,.2f}")


def _describe_utilization(share: float) -> str:
    """Return a phrase about the speed; none if other programs slowed the measurement of matrix products."""
    return f"; {100 * share:.2g} % of the speed of large float32 matrix products" if share < 1 else ""
