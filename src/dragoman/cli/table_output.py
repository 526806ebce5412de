"""Console and tables on standard output and standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dragoman.cli.escaped_output import escape_controls

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any


class PlainConsole(Console):
    """Console that shows texts as they are, without markup and codes of emojis, and escapes control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        """Yield the parts of what is printed; only the console itself may move the cursor."""
        for part in super().render(*arguments, **options):
            yield part if part.control else Segment(escape_controls(part.text), part.style)


def build_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str | None = None,
    right: Collection[str] = (),
    header: bool = True,
) -> Table:
    """Build a table without lines; cells that are too wide are folded, `right` columns are aligned to the right."""
    table = Table(
        title=None if title is None else Text(title),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="dim",
        show_header=header,
    )
    for column in columns:
        table.add_column(_cell(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(content: str | Text) -> Text:
    """Return a cell whose width is that of its escaped text."""
    style = content.style if isinstance(content, Text) else ""
    return Text(escape_controls(str(content)), style)


def print_whole(console: Console, table: Table) -> None:
    """Print a table whose last column is never folded, so that a signature wider than the terminal can be copied."""
    last = table.columns[-1]
    last.min_width = max((len(str(cell)) for cell in last.cells), default=0)
    console.print(table, crop=False, soft_wrap=True)
