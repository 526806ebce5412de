"""One pair of texts, as a corpus holds it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A source, its target, and the line (from 1) where they stand; either side may still be empty."""

    source: str
    target: str
    line: int
