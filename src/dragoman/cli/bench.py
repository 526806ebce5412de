"""`dragoman bench`: decoding speed and roofline of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dragoman.cli import text_io
from dragoman.cli.options import RunArgument, given, refuse, shared_options
from dragoman.cli.table_output import PlainConsole, build_table
from dragoman.cli.verb_command import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

SourceTexts = Annotated[str | None, typer.Option("--source", "-i", help="File of texts. Without it, random tokens.")]
BatchSizes = Annotated[
    list[int] | None, typer.Option("--batch", min=1, help="Batch size (repeatable).", show_default="1, 8, 64")
]
BeamSizes = Annotated[
    list[int] | None, typer.Option("--beam-size", "--beam", min=1, help="Beam size (repeatable).", show_default="1, 4")
]
SourceTokens = Annotated[int | None, typer.Option(min=1, help="Tokens of each random source.", show_default="24")]


@shared_options(("device", "compute_type"), into="loading")
def bench(
    run: RunArgument,
    *,
    source: SourceTexts = None,
    batch_sizes: BatchSizes = None,
    beam_sizes: BeamSizes = None,
    tokens: Annotated[int, typer.Option(min=1, help="Output tokens; the maximum with --source.")] = 32,
    source_tokens: SourceTokens = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements per setting; the median is reported.")] = 3,
    loading: dict[str, Any],
) -> Outcome:
    """Measure the decoding speed of a run on this machine.

    Measures loading, the first token and the following tokens by batch size and beam size, and the fraction of peak
    memory bandwidth and peak arithmetic reached.
    """
    from dragoman.profiling.decoding_benchmark import BenchConfig
    from dragoman.profiling.decoding_benchmark import bench as measure
    from dragoman.runs.folder import RunFolder
    from dragoman.runs.load import load

    if source is not None:
        refuse({"source_tokens": source_tokens}, "with --source")
    options = given(
        batch_sizes=batch_sizes and tuple(batch_sizes),
        beam_sizes=beam_sizes and tuple(beam_sizes),
        source_tokens=source_tokens,
        texts=None if source is None else [text for text in text_io.read_all(source) if text],
    )
    config = BenchConfig(tokens=tokens, rounds=rounds, **options)
    found = measure(RunFolder(run), config, load=load, **{"device": None, "compute_type": "auto"} | loading)
    return Outcome(lambda: found, lambda: _print(found))


def _print(found: dict[str, Any]) -> None:
    console = PlainConsole(soft_wrap=True)
    console.print(Text.assemble((found["run"], "bold"), f", {found['compute_type']}: {found['backend']}"))
    process, peak = found["process"], found["process"]["peak_bytes"]
    memory = "" if peak is None else f", peak memory {peak / 2**20:.0f} MiB"
    console.print(
        f"loaded in {found['load_seconds']:.2f} s; command that generates one token: {process['seconds']:.2f} s{memory}"
    )
    columns = {
        "batch": "{batch_size}",
        "beam": "{beam_size}",
        "first ms": "{first_token_ms:.2f}",
        "next ms": "{token_ms:.2f}",
        "sentences/s": "{sentences_per_second:,.1f}",
        "tokens/s": "{tokens_per_second:,.0f}",
        "MB/token": "{megabytes_per_token:.2f}",
        "Mop/token": "{megaoperations_per_token:.2f}",
    }
    rows = [[cell.format(**row) for cell in columns.values()] for row in found["results"]]
    console.print(build_table(list(columns), rows, right=columns))
    machine = found["machine"]
    console.print(
        f"roofline: memory {machine['bytes_per_second'] / 1e9:.1f} GB/s, arithmetic "
        f"{machine['operations_per_second'] / 1e9:,.0f} Gop/s in {found['compute_type']}"
    )
    for row in found["results"]:
        console.print(f"  batch {row['batch_size']}, beam {row['beam_size']}: {describe_roofline(row)}")


def describe_roofline(row: Mapping[str, Any]) -> str:
    """Describe what limits the speed of a batch."""
    arithmetic = f"{100 * min(row['compute_fraction'], 1):.1f} % of the arithmetic"
    if row["bound"] == "cache":
        return f"{arithmetic}; the model stays in the caches, so the bandwidth of the memory is no bound"
    bound = f"bound by {row['bound']}"
    return f"{100 * row['bandwidth_fraction']:.1f} % of the bandwidth, {arithmetic}; {bound}"
