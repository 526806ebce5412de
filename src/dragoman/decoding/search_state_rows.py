"""Base of dataclasses that hold one row per sentence in each field."""

from typing import Any, Self

import numpy as np

from dragoman.array_types import Int


class RowBatch:
    """Rows of sentences: arrays, tuples, None, or parts that have `select` and `concat` themselves."""

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """Return these rows."""
        return type(self)(*(_select(part, rows) for part in vars(self).values()))

    def concat(self, other: Self) -> Self:
        """Append the rows of the other."""
        return type(self)(*map(_concat, vars(self).values(), vars(other).values()))


def _select(part: Any, rows: Int[np.ndarray, " kept"]) -> Any:
    if part is None or isinstance(part, np.ndarray):
        return None if part is None else part[rows]
    return tuple(part[row] for row in rows.tolist()) if isinstance(part, tuple) else part.select(rows)


def _concat(part: Any, other: Any) -> Any:
    if part is None or isinstance(part, np.ndarray):
        return None if part is None else np.concatenate([part, other])
    return part + other if isinstance(part, tuple) else part.concat(other)
