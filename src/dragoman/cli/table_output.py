"""Tables on standard output and standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rich.console import Console


def build_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str | None = None,
    right: Collection[str] = (),
    header: bool = True,
) -> Table:
    """Build a table without lines; cells that are too wide are folded, `right` columns are aligned to the right.

    Cells that are strings may contain markup.
    """
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim", show_header=header)
    for column in columns:
        table.add_column(Text(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def print_whole(console: Console, table: Table) -> None:
    """Print a table whose last column is never folded, so that a signature wider than the terminal can be copied."""
    last = table.columns[-1]
    last.min_width = max((len(Text.from_markup(str(cell))) for cell in last.cells), default=0)
    console.print(table, crop=False, soft_wrap=True)
