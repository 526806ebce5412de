"""`dragoman prune`: a run without the attention heads that matter least."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Device

Share = Annotated[float, typer.Option(help="The share of all heads that is taken out.")]
Source = Annotated[
    Path, typer.Option(help="File of texts, one a line, that tell which heads matter.", show_default=False)
]
Target = Annotated[Path, typer.Option(help="File of their translations, one a line.", show_default=False)]
Most = Annotated[int, typer.Option(min=1, help="Most pairs that are read.")]


def prune(
    model: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    *,
    heads: Share = 0.25,
    source: Source,
    target: Target,
    out: Annotated[Path, typer.Option(help="The folder of the smaller run.", show_default=False)],
    pairs: Most = 1000,
    device: Device = None,
) -> None:
    """Write a smaller run, without the heads to which the loss of the given pairs is least sensitive.

    The heads are ranked as by Michel et al. (2019), each attention keeps its best one, and nothing is trained again.
    """
    from dragoman.cli import streams
    from dragoman.cli.loading import load_to_look_into
    from dragoman.data.readers import ParallelFiles, Repairs, read
    from dragoman.errors import DataError
    from dragoman.inference import Translator
    from dragoman.runs.prune import prune_run

    repairs = Repairs()
    examples = islice(read(ParallelFiles(source=source, target=target), repairs), pairs)
    some = [(example.source, example.target) for example in examples if example.source and example.target]
    if not some:
        raise DataError(f"{source}: holds no text that tells which heads matter; give another file")
    found = prune_run(model, load_to_look_into(Translator, model, device=device), out, share=heads, pairs=some)
    streams.report_repairs(repairs)
    streams.say(
        f"{out}: {found.heads[1]} of {found.heads[0]} heads, {found.parameters[1]:,} parameters in place of "
        f"{found.parameters[0]:,}; measure it with: dragoman evaluate {out} --source FILE --reference FILE"
    )
