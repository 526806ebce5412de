"""`dragoman prune`: remove attention heads."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Device

Share = Annotated[float, typer.Option(help="Fraction of all heads to remove.")]
Source = Annotated[
    Path, typer.Option(help="Source side of the corpus that the heads are ranked on.", show_default=False)
]
Target = Annotated[
    Path, typer.Option(help="Target side of the corpus that the heads are ranked on.", show_default=False)
]
Most = Annotated[int, typer.Option(min=1, help="Maximum number of pairs read.")]


def prune(
    model: Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)],
    *,
    heads: Share = 0.25,
    source: Source,
    target: Target,
    out: Annotated[Path, typer.Option("--output-dir", "--out", help="Folder of the pruned run.", show_default=False)],
    pairs: Most = 1000,
    device: Device = None,
) -> None:
    """Remove the least important attention heads of a run.

    Heads are ranked by the sensitivity of the loss on the given pairs (Michel et al., 2019). Each attention keeps at
    least one head. The remaining weights are not trained again.
    """
    from dragoman.cli import streams
    from dragoman.cli.loading import load_to_look_into
    from dragoman.data.readers.corpus import read_corpus
    from dragoman.data.readers.parallel import ParallelFiles
    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.errors import DataError
    from dragoman.inference import Translator
    from dragoman.runs.prune import prune_run

    repairs = ReadWarnings()
    examples = islice(read_corpus(ParallelFiles(source=source, target=target), repairs), pairs)
    some = [(example.source, example.target) for example in examples if example.source and example.target]
    if not some:
        raise DataError(f"{source}: holds no text that tells which heads matter; give another file")
    found = prune_run(model, load_to_look_into(Translator, model, device=device), out, share=heads, pairs=some)
    streams.report_repairs(repairs)
    streams.say(
        f"{out}: {found.heads[1]} of {found.heads[0]} heads, {found.parameters[1]:,} parameters in place of "
        f"{found.parameters[0]:,}; measure it with: dragoman evaluate {out} --source FILE --reference FILE"
    )
