"""Number of examples of property tests: a fifth in the fast tier, thousands of damaged files in the thorough one."""

import os

from hypothesis import settings

FAST = os.environ.get("DRAGOMAN_TESTS") == "fast"
FULL = os.environ.get("DRAGOMAN_TESTS") == "full"
THOROUGH = os.environ.get("DRAGOMAN_TESTS") == "thorough"


def examples(count: int) -> settings:
    """Return settings with `count` examples, or a fifth of them (at least 4) in the fast tier."""
    return settings(max_examples=max(4, count // 5) if FAST else count)


def damaged_files(count: int) -> settings:
    """Return settings as `examples` does, with 5,000 examples in the thorough tier."""
    return settings(max_examples=5_000) if THOROUGH else examples(count)
