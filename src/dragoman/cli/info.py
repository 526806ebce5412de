"""`dragoman info`: what a run is made of."""

from pathlib import Path
from typing import Annotated

import typer


def info(run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]) -> None:
    """Show the parameters, cost and scores of a run."""
    raise NotImplementedError(f"info of {run}")
