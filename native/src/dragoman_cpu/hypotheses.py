"""What is handed from step to step: the memory of what was read, and the state of the hypotheses."""

from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dragoman_cpu import _core
from dragoman_cpu.arrays import whole_numbers


def _rows(rows: ArrayLike) -> list[int]:
    numbers: list[int] = whole_numbers(rows, axes=1, name="rows").tolist()
    return numbers


@final
class Memory:
    """Sources or prompts that were read. `keep` and `join` share them and copy nothing."""

    def __init__(self, core: _core.Memory) -> None:
        self.core = core

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Those of the sentences, or of the prompts with their last tokens."""
        return np.array(self.core.lengths, dtype=np.int32)

    def keep(self, rows: ArrayLike) -> Self:
        """The memory of these sentences alone; raises IndexError for others than there are."""
        return type(self)(self.core.keep(_rows(rows)))

    def join(self, other: Self) -> Self:
        """This memory with the sentences of the other, of the same model, after its own."""
        return type(self)(self.core.join(other.core))


@final
class State:
    """Hypotheses, `beam` for each sentence: a handle that stays what it is, whatever is made of it.

    Keys and values are shared by all states that go back to the same step, and freed when the last of these is gone.
    """

    def __init__(self, core: _core.State) -> None:
        self.core = core

    @property
    def beam(self) -> int:
        """Hypotheses of each sentence."""
        return self.core.beam

    @property
    def ages(self) -> NDArray[np.int32]:
        """Places that the hypotheses of each sentence have so far, its prompt included."""
        return np.array(self.core.ages, dtype=np.int32)

    def select(self, parents: ArrayLike) -> Self:
        """Beam `j` of a sentence goes on from its hypothesis `parents[:, j]`; raises IndexError where it has none."""
        return type(self)(self.core.select(whole_numbers(parents, axes=2, name="parents")))

    def keep(self, rows: ArrayLike) -> Self:
        """The state of these sentences alone; raises IndexError for others than there are."""
        return type(self)(self.core.keep(_rows(rows)))

    def back(self, places: ArrayLike) -> Self:
        """The state that it was so many places ago, `[batch]`; raises IndexError where it has had fewer."""
        return type(self)(self.core.back(whole_numbers(places, axes=1, name="places").tolist()))

    def join(self, other: Self) -> Self:
        """This state with the sentences of the other, of the same beam, after its own, each at its own place."""
        return type(self)(self.core.join(other.core))
