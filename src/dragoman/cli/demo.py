"""`dragoman demo`: a small translator, trained on the spot."""

from typing import Annotated

import typer


def demo(*, to: Annotated[str, typer.Option(help="The locale to translate to.")] = "fr") -> None:
    """Train a small translator of dates, times, numbers and amounts, and show what it can do."""
    raise NotImplementedError(f"demo to {to}")
