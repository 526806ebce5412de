"""`dragoman pull`: download a model from the Hugging Face Hub."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from dragoman.cli import messages
from dragoman.cli.import_model import AllowUnused, DefaultSource, DefaultTarget, ImportFormat, print_import
from dragoman.cli.options import OutputDir
from dragoman.cli.table_output import PlainConsole
from dragoman.cli.verb_command import Outcome

RepositoryArgument = Annotated[str, typer.Argument(help="Name of the model on the Hub, ORGANIZATION/MODEL.")]


def pull(
    repository: RepositoryArgument,
    *,
    output_dir: OutputDir,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.", show_default="the main branch")] = None,
    model_format: ImportFormat = None,
    file: Annotated[str | None, typer.Option(help="File of the weights, where there are several.")] = None,
    source_language: DefaultSource = None,
    target_language: DefaultTarget = None,
    allow_unused: AllowUnused = None,
) -> Outcome:
    """Download a model from the Hugging Face Hub and write it as a run.

    Downloads only the files that the import reads, and continues an interrupted download. Ends with the self-check of
    dragoman import.
    """
    from dragoman.runs.hub.pull import pull as pull_run

    with _progress() as on_progress:
        result = pull_run(
            repository,
            output_dir,
            revision=revision,
            format=model_format,
            file=file,
            source_language=source_language,
            target_language=target_language,
            allow_unused=allow_unused or (),
            on_progress=on_progress,
        )
    return Outcome(result.to_dict, lambda: print_import(output_dir, result.describe(), result.lines()))


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show downloaded bytes on standard error, if it is a terminal."""
    columns = (TextColumn("download"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    is_shown = sys.stderr.isatty() and not messages.is_quiet()
    bar = Progress(
        *columns,
        console=PlainConsole(stderr=True),
        transient=True,
        redirect_stdout=False,  # would escape the control sequences of the bar
        redirect_stderr=False,
        disable=not is_shown,
    )
    with bar:
        task = bar.add_task("download", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
