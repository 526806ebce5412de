"""Number of examples of property tests: a fifth in the fast tier, thousands of damaged files in the full one."""

import os

from hypothesis import settings

FAST = os.environ.get("DRAGOMAN_TESTS") == "fast"
FULL = os.environ.get("DRAGOMAN_TESTS") == "full"


def examples(count: int) -> settings:
    """Return settings with `count` examples, or a fifth of them (at least 4) in the fast tier."""
    return settings(max_examples=max(4, count // 5) if FAST else count)


def damaged_files(count: int) -> settings:
    """Return settings as `examples` does, with 5,000 examples in the full tier."""
    return settings(max_examples=5_000) if FULL else examples(count)
