"""`dragoman bench`: decoding speed and roofline of a run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dragoman.cli.options import ComputeTypeOption, DeviceOption, JsonFlag, RunArgument

Source = Annotated[
    str | None,
    typer.Option("--source", "-i", help="File of texts to measure on. Without it, random tokens.", show_default=False),
]
Batch = Annotated[
    list[int] | None, typer.Option(min=1, help="Batch size in sentences (repeatable).", show_default="1, 8, 64")
]
Beam = Annotated[list[int] | None, typer.Option(min=1, help="Beam size (repeatable).", show_default="1, 4")]
SourceTokens = Annotated[int | None, typer.Option(min=1, help="Tokens of each random source.", show_default="24")]


def bench(
    run: RunArgument,
    *,
    source: Source = None,
    batch: Batch = None,
    beam: Beam = None,
    tokens: Annotated[int, typer.Option(min=1, help="Output tokens; the maximum with --source.")] = 32,
    source_tokens: SourceTokens = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements per setting; the median is reported.")] = 3,
    device: DeviceOption = None,
    compute_type: ComputeTypeOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Measure the decoding speed of a run on this machine.

    Measures loading, the first token and the following tokens by batch size and beam size, and the fraction of peak
    memory bandwidth and peak arithmetic reached.
    """
    from dragoman.errors import ConfigError
    from dragoman.profiling.bench import BenchConfig
    from dragoman.profiling.bench import bench as measure
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.load import load

    if source is not None and source_tokens is not None:
        raise ConfigError("--source-tokens has no effect with --source. Leave it out.")
    given: dict[str, Any] = {
        "batch_sizes": batch,
        "beam_sizes": beam,
        "source_tokens": source_tokens,
        "texts": _read_texts(source),
    }
    asked = {name: value for name, value in given.items() if value is not None}
    fixed: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in asked.items()}
    config = BenchConfig(tokens=tokens, rounds=rounds, **fixed)
    found = measure(RunFolder(run), config, load=load, device=device, compute_type=compute_type)
    if json_:
        print(json.dumps(found, indent=2))
    else:
        _print(found)


def _read_texts(source: str | None) -> list[str] | None:
    if source is None:
        return None
    from dragoman.cli import streams

    return [text for text in streams.read_all(source) if text]


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{escape(found['run'])}[/bold], {found['compute_type']}: {found['backend']}", soft_wrap=True)
    process, peak = found["process"], found["process"]["peak_bytes"]
    memory = "" if peak is None else f", peak memory {peak / 2**20:.0f} MiB"
    console.print(
        f"loaded in {found['load_seconds']:.2f} s; command that generates one token: {process['seconds']:.2f} s{memory}"
    )
    table = Table(box=None, pad_edge=False)
    for name in ("batch", "beam", "first ms", "next ms", "sentences/s", "tokens/s", "MB/token", "Mop/token"):
        table.add_column(name, justify="right")
    for row in found["results"]:
        table.add_row(
            str(row["batch_size"]),
            str(row["beam_size"]),
            f"{row['first_token_ms']:.2f}",
            f"{row['token_ms']:.2f}",
            f"{row['sentences_per_second']:,.1f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['megabytes_per_token']:.2f}",
            f"{row['megaoperations_per_token']:.2f}",
        )
    console.print(table)
    _print_roofline(console, found)


def _print_roofline(console: Any, found: dict[str, Any]) -> None:
    machine = found["machine"]
    console.print(
        f"roofline: memory {machine['bytes_per_second'] / 1e9:.1f} GB/s, arithmetic "
        f"{machine['operations_per_second'] / 1e9:,.0f} Gop/s in {found['compute_type']}",
        soft_wrap=True,
    )
    for row in found["results"]:
        console.print(
            f"  batch {row['batch_size']}, beam {row['beam_size']}: "
            f"{100 * row['bandwidth_fraction']:.1f} % of the bandwidth, {100 * row['compute_fraction']:.1f} % of the arithmetic; bound by {row['bound']}",
            soft_wrap=True,
        )
