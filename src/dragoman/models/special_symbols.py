"""The ids that have a meaning for every network."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbols:
    """The ids that have a meaning for a network: padding, unknown word, begin and end of a sequence."""

    pad: int = 0
    unknown: int = 1
    begin: int = 2
    end: int = 3
