"""`dragoman export`: the model of a run in a folder of its own, to be handed on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class StoredName(StrEnum):
    """How weights are stored."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


Out = Annotated[Path, typer.Option(help="The folder to write, there whole or not at all.", show_default=False)]
StoredOption = Annotated[
    StoredName, typer.Option("--compute", help="Store the weights in this precision, and compute in it where one can.")
]


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    *,
    out: Out,
    compute: StoredOption = StoredName.FLOAT32,
) -> None:
    """Write what it takes to use the model of a run, and nothing of what it took to train it."""
    from dragoman.experiment.exporting import MEBIBYTE
    from dragoman.experiment.exporting import export as export_run

    sizes = export_run(run, out, compute=compute.value)
    before, after = sizes.before / MEBIBYTE, sizes.after / MEBIBYTE
    print(f"{out}: {compute.value} weights, {after:.1f} MiB (in the run {before:.1f})")
