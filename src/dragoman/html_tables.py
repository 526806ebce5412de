"""Tables in HTML, as which notebooks show results."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers have four decimal places, and line breaks of texts are kept."""
    lines = [
        f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr>",
        *(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows),
    ]
    return f"<table>{''.join(lines)}</table>"


def _cell(value: object) -> str:
    text = f"{value:z.4f}" if isinstance(value, float) else str(value)
    return f'<td style="white-space: pre-wrap">{escape(text)}</td>'
