"""Number of examples of property tests: a fifth in the fast tier."""

import os

from hypothesis import settings

FAST = os.environ.get("DRAGOMAN_TESTS") == "fast"


def examples(count: int) -> settings:
    """Return settings with `count` examples, or a fifth of them (at least 4) in the fast tier."""
    return settings(max_examples=max(4, count // 5) if FAST else count)
