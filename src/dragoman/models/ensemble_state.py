"""What several networks keep of the same sentences, for a search that takes them for one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, final


@final
@dataclass(frozen=True)
class EnsembleMemory:
    """What each network keeps of the same source sentences; rows are counted as the networks count them."""

    parts: tuple[Any, ...]

    @property
    def lengths(self) -> Any:
        return self.parts[0].lengths

    def select(self, rows: Any) -> Self:
        return type(self)(tuple(part.select(rows) for part in self.parts))

    def concat(self, other: Self) -> Self:
        return type(self)(tuple(mine.concat(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)))


@final
@dataclass(frozen=True)
class EnsembleState:
    """What each network keeps of the same hypotheses."""

    parts: tuple[Any, ...]

    def reorder(self, parents: Any) -> Self:
        return self._each(lambda part: part.reorder(parents))

    def select(self, rows: Any) -> Self:
        return self._each(lambda part: part.select(rows))

    def concat(self, other: Self) -> Self:
        return type(self)(tuple(mine.concat(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)))

    def _each(self, change: Callable[[Any], Any]) -> Self:
        return type(self)(tuple(change(part) for part in self.parts))
