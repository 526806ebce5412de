"""Immutable values that are passed from step to step: encoded sources and the state of the hypotheses."""

from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dragoman_cpu import _ext
from dragoman_cpu.array_checks import int32_array


def _row_list(rows: ArrayLike) -> list[int]:
    numbers: list[int] = int32_array(rows, ndim=1, name="rows").tolist()
    return numbers


@final
class Memory:
    """Encoded sources or prompts. `select` and `concat` share them without a copy."""

    def __init__(self, native: _ext.Memory) -> None:
        self.native = native

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Lengths of the sources, or of the prompts with their last tokens."""
        return np.array(self.native.lengths, dtype=np.int32)

    def select(self, rows: ArrayLike) -> Self:
        """Return the memory of the sentences `rows`; raise IndexError for rows out of range."""
        return type(self)(self.native.select(_row_list(rows)))

    def concat(self, other: Self) -> Self:
        """Append the sentences of another memory of the same model."""
        return type(self)(self.native.concat(other.native))


@final
class State:
    """Hypotheses, `beam_size` per sentence. States are immutable.

    States that descend from the same step share its keys and values, which are freed with the last of these states.
    """

    def __init__(self, native: _ext.State) -> None:
        self.native = native

    @property
    def beam_size(self) -> int:
        """Number of hypotheses per sentence."""
        return self.native.beam_size

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Number of tokens of the hypotheses of each sentence, including the prompt."""
        return np.array(self.native.lengths, dtype=np.int32)

    def reorder(self, parents: ArrayLike) -> Self:
        """Replace hypothesis `j` of each sentence by its hypothesis `parents[:, j]`.

        The new beam may be wider or narrower. Raises IndexError for parents out of range.
        """
        return type(self)(self.native.reorder(int32_array(parents, ndim=2, name="parents")))

    def select(self, rows: ArrayLike) -> Self:
        """Return the state of the sentences `rows`; raise IndexError for rows out of range."""
        return type(self)(self.native.select(_row_list(rows)))

    def concat(self, other: Self) -> Self:
        """Append the sentences of another state of the same beam size; lengths may differ."""
        return type(self)(self.native.concat(other.native))
