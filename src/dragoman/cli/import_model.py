"""`dragoman import`: read a model of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import OutputDir
from dragoman.cli.verb_command import Outcome
from dragoman.errors import quote

ImportFormat = Annotated[
    str | None, typer.Option("--format", help="Format of the model.", show_default="recognized by its content")
]
DefaultSource = Annotated[str | None, typer.Option(help="Source language of a multilingual model.")]
DefaultTarget = Annotated[str | None, typer.Option(help="Target language of a multilingual model.")]
AllowUnused = Annotated[
    list[str] | None, typer.Option(help="Name of a tensor or of a setting that may be left out (repeatable).")
]


def import_model(
    source: Annotated[Path, typer.Argument(help="File or folder of the model.")],
    *,
    output_dir: OutputDir,
    model_format: ImportFormat = None,
    source_language: DefaultSource = None,
    target_language: DefaultTarget = None,
    allow_unused: AllowUnused = None,
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
    return Outcome(result.to_dict, lambda: print_import(output_dir, result.describe(), result.lines()))


def print_import(output_dir: Path, headline: str, lines: list[str]) -> None:
    """Print what was imported, and its self-check."""
    print(f"{output_dir}: {headline}")
    print("\n".join(f"  {line}" for line in lines))
    print(f"Describe it with: dragoman info {quote(output_dir)}")
