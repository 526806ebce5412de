"""Numbers with their nouns."""

import math
import re
from typing import Final

PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E")
"""Prefixes of the powers of 1,000."""


def counted(number: float, many: str, one: str | None = None) -> str:
    """Return a number with its noun, such as `1 pair` or `1,234 pairs`.

    `many` is the noun in the plural, perhaps with a verb, and `one` the same in the singular: by default its last word
    without the ending of the plural.
    """
    return f"{number:,} {(one or singular(many)) if number == 1 else many}"


def with_prefix(value: float, unit: str) -> str:
    """Return a quantity with the decimal prefix of its size, such as `2.7 MFLOP`."""
    power = min(len(PREFIXES) - 1, max(0, math.floor(math.log10(value)) // 3 if value > 0 else 0))
    return f"{value / 1000**power:.1f} {PREFIXES[power]}{unit}"


def singular(noun: str) -> str:
    """Return the singular of a regular plural."""
    return re.sub(r"ies$", "y", re.sub(r"(?<=ch|sh|ss)es$|(?<=x)es$|(?<!ie)s$", "", noun))
