"""`dragoman import`: read a model of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import OutputDir
from dragoman.cli.verb_command import Outcome
from dragoman.errors import quote


def import_model(
    source: Annotated[Path, typer.Argument(help="File or folder of the model.")],
    *,
    output_dir: OutputDir,
    model_format: Annotated[
        str | None, typer.Option("--format", help="Format of the model.", show_default="recognized by its content")
    ] = None,
    source_language: Annotated[str | None, typer.Option(help="Source language of a multilingual model.")] = None,
    target_language: Annotated[str | None, typer.Option(help="Target language of a multilingual model.")] = None,
    allow_unused: Annotated[
        list[str] | None, typer.Option(help="Name of a tensor that may be left out (repeatable).")
    ] = None,
) -> Outcome:
    """Read a model of another program and write it as a run.

    Ends with a self-check: what became of each tensor, the difference from the other program where it is installed, and
    a sample.
    """
    from dragoman.runs.import_model import import_model as import_run

    result = import_run(
        source,
        output_dir,
        format=model_format,
        source_language=source_language,
        target_language=target_language,
        allow_unused=allow_unused or (),
    )

    def show() -> None:
        print(f"{output_dir}: {result.model}, {result.parameters:,} parameters, imported from {result.format}")
        print("\n".join(f"  {line}" for line in result.lines()))
        print(f"Describe it with: dragoman info {quote(output_dir)}")

    return Outcome(result.to_dict, show)
