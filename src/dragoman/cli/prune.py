"""`dragoman prune`: remove attention heads."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli import messages, text_io
from dragoman.cli.load_run import load_as
from dragoman.cli.options import DeviceOption, OutputDir, RunArgument
from dragoman.cli.verb_command import Outcome
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.errors import DataError, quote


def prune(
    run: RunArgument,
    *,
    heads: Annotated[float, typer.Option(min=0, max=1, help="Fraction of all heads to remove.")] = 0.25,
    source: Annotated[Path, typer.Option(help="Source side of the corpus that ranks the heads.")],
    target: Annotated[Path, typer.Option(help="Target side of the corpus that ranks the heads.")],
    output_dir: OutputDir,
    pairs: Annotated[int, typer.Option(min=1, help="Maximum number of pairs read.")] = 1000,
    device: DeviceOption = None,
) -> Outcome:
    """Remove the least important attention heads of a run.

    Heads are ranked by the sensitivity of the loss on the given pairs (Michel et al., 2019). Each attention keeps at
    least one head. The remaining weights are not trained again.
    """
    from dragoman.data.readers.parallel import ParallelFiles, read_corpus
    from dragoman.inference import Translator
    from dragoman.runs.prune import prune_run

    warnings = ReadWarnings()
    examples = islice(read_corpus(ParallelFiles(source=source, target=target), warnings), pairs)
    sample = [(example.source, example.target) for example in examples if example.source and example.target]
    if not sample:
        raise DataError(f"{source}: contains no text to rank the heads on. Give another file.")
    translator = load_as(Translator, run, torch_only=True, device=device)
    result = prune_run(run, translator, output_dir, share=heads, pairs=sample)
    text_io.report_repairs(warnings)
    text = (
        f"{output_dir}: {result.heads[1]} of {result.heads[0]} heads, {result.parameters[1]:,} of "
        f"{result.parameters[0]:,} parameters. Score the run with: dragoman evaluate {quote(output_dir)} --source FILE "
        "--reference FILE"
    )
    facts = {"path": str(output_dir), "heads": result.heads, "parameters": result.parameters}
    return Outcome(lambda: facts, lambda: messages.say(text))
